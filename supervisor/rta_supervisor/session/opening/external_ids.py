"""Binds external ids of principals to sessions, and finds the session of an external id. `open_rules` decides what a
binding means; the session itself is created by `service`.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.opening import open_rules
from rta_supervisor.session.opening.open_rules import Binding, BindingState
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import map_pages
from rta_wire import errors, keys, session
from rta_wire.pb import control_pb2


class ExternalId(NamedTuple):
    """A name that a principal gave to a session."""

    principal: str
    name: str


OpenIdentity = Callable[[str, control_pb2.OpenSession, session.Json], Awaitable[SessionRecord]]
"""Gives the open session of an identity, new or not. Raises where it belongs to another session."""


class BoundSession(NamedTuple):
    """What an external id stands for."""

    binding: Binding
    record: SessionRecord | None
    """The session that Redis has under the identity of the binding, whose ever it is."""

    state: BindingState


class ExternalIds:
    """The bindings of all external ids."""

    def __init__(self, link: Link, config: settings.Settings, sessions: SessionStore) -> None:
        self._link = link
        self._config = config
        self._keys = config.keys
        self._sessions = sessions

    async def open(
        self,
        external_id: ExternalId,
        request: control_pb2.OpenSession,
        document: session.Json,
        open_identity: OpenIdentity,
    ) -> SessionRecord:
        """The open session of an external id, new or not.

        The id is bound before the session is created, so that opens that are served at once agree on the identity: the
        first one decides it, and whoever comes next creates the session that an interrupted open has not. A binding
        proves nothing: what is given away is checked against the session itself.
        """
        while True:
            bound = await self.find(external_id)
            if bound is not None and bound.state is BindingState.ENDED:
                raise await self._ended_error(external_id, bound)
            identity = request.identity
            if bound is not None and bound.state is not BindingState.VOID:
                identity = bound.binding.identity
            elif not await self._claim(external_id, request, bound):
                continue  # another open was faster
            named = _with_identity(request, identity)
            record = await self._open_bound(external_id, named, {**document, "identity": identity}, open_identity)
            if await self.confirm(external_id, record):
                return record

    async def _open_bound(
        self,
        external_id: ExternalId,
        request: control_pb2.OpenSession,
        document: session.Json,
        open_identity: OpenIdentity,
    ) -> SessionRecord:
        """The session that an external id is bound to, with the id noted in its state. An open that is refused frees
        the id, unless it stands for a session of this principal."""
        identity = request.identity
        try:
            opened = await open_identity(external_id.principal, request, document)
            noted = await self._note(external_id, opened)
            open_rules.check_same_external_id(identity, noted, external_id.name)
        except errors.RtaError:
            record = await self._sessions.read(identity)
            if record is None or not open_rules.owns(record, *external_id):
                await self._link.do(*self._command("rtas_external_release_1", external_id, identity))
            raise
        return opened

    async def find(self, external_id: ExternalId) -> BoundSession | None:
        """What an external id stands for; None where it is free."""
        binding = await self._call("rtas_external_bound_1", external_id)
        if binding is None:
            return None
        record = await self._sessions.read(binding.identity)
        state = open_rules.binding_state(binding, record, principal=external_id.principal, external_id=external_id.name)
        return BoundSession(binding, record, state)

    async def identity_of(self, external_id: ExternalId) -> str:
        """The identity of the session of an external id, open or closed."""
        bound = await self.find(external_id)
        if bound is None or bound.state in (BindingState.VOID, BindingState.UNFINISHED):
            raise errors.UnknownExternalId(
                external_id=external_id.name, principals=f"principal {external_id.principal!r}"
            )
        return bound.binding.identity

    async def _claim(
        self, external_id: ExternalId, request: control_pb2.OpenSession, void: BoundSession | None
    ) -> bool:
        """Bind an external id to the identity of an open, which is refused before that where the identity belongs to
        another session. False: the id stands for something else by now.

        `void`: what the id is bound to and does not stand for.
        """
        record = await self._sessions.read(request.identity)
        if record is not None:
            open_rules.check_same(record, external_id.principal, request)
            open_rules.check_same_external_id(request.identity, record.external_id, external_id.name)
        void_identity = "" if void is None else void.binding.identity
        ttl_s = self._config.session.external_id_ttl_s
        binding = await self._call("rtas_external_claim_1", external_id, request.identity, void_identity, ttl_s)
        return binding is not None and binding.identity == request.identity

    async def confirm(self, external_id: ExternalId, record: SessionRecord) -> bool:
        """Note that the session of an external id exists. Whether the id stands for this session."""
        ref = record.ref
        ttl_s = self._config.session.external_id_ttl_s
        binding = await self._call("rtas_external_confirm_1", external_id, ref.identity, ref.stream_session_id, ttl_s)
        return binding == Binding(ref.identity, ref.stream_session_id)

    async def _note(self, external_id: ExternalId, record: SessionRecord) -> str:
        """Note an external id in the state of a session that has none. Gives the one that it has then."""
        if record.external_id:
            return record.external_id
        state_key = self._keys.session_state(record.ref.identity)
        arguments = (record.ref.stream_session_id, external_id.name)
        noted: bytes = await self._link.do("FCALL", "rtas_external_note_1", 1, state_key, *arguments)
        return noted.decode()

    async def extend(self, refs: Iterable[SessionRef]) -> None:
        """Keep the external ids of open sessions from expiring: their lifetime counts from the end of the session."""
        await map_pages(list(refs), self._extend_page)

    async def _extend_page(self, refs: Sequence[SessionRef]) -> list[int]:
        fields = await self._link.do_all(
            [("HMGET", self._keys.session_state(ref.identity), keys.PRINCIPAL, keys.EXTERNAL_ID) for ref in refs]
        )
        ttl_s = self._config.session.external_id_ttl_s
        return await self._link.do_all(
            [
                self._command(
                    "rtas_external_keep_1",
                    ExternalId(principal.decode(), name.decode()),
                    *(ref.identity, ref.stream_session_id, ttl_s),
                )
                for ref, (principal, name) in zip(refs, fields, strict=True)
                if name
            ]
        )

    async def _ended_error(self, external_id: ExternalId, bound: BoundSession) -> errors.ExternalIdEnded:
        """Says what became of the session of an external id, and how long the id is taken."""
        binding, record, _ = bound
        is_there = record is not None and binding.stream_session_id in (None, record.ref.stream_session_id)
        remaining_s = await self._link.do("TTL", self._keys.external(*external_id))
        return errors.ExternalIdEnded(
            external_id=external_id.name,
            identity=binding.identity,
            state=record.state.value if record is not None and is_there else "closed and gone from Redis",
            remaining_s=max(0, remaining_s),
        )

    async def _call(self, function: str, external_id: ExternalId, *arguments: commands.Argument) -> Binding | None:
        """The binding after a call of a function on it; None where the id is free."""
        identity, stream_session_id = await self._link.do(*self._command(function, external_id, *arguments))
        if not identity:
            return None
        return Binding(identity.decode(), int(stream_session_id) if stream_session_id else None)

    def _command(self, function: str, external_id: ExternalId, *arguments: commands.Argument) -> commands.Command:
        names = (self._keys.external(*external_id), self._keys.external_created(*external_id))
        return ("FCALL", function, len(names), *names, *arguments)


def _with_identity(request: control_pb2.OpenSession, identity: str) -> control_pb2.OpenSession:
    named = control_pb2.OpenSession()
    named.CopyFrom(request)
    named.identity = identity
    return named
