"""Serves requests to open, update and close sessions, and ends sessions for other reasons. `state_machine` decides what
is allowed, `effects` writes it.
"""

from collections.abc import Awaitable, Callable, Collection

import msgspec

from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.control.waiting_requests import Wait
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.session import config_bindings, patch, server_functions, state_machine, time_limits
from rta_supervisor.session.effects import SessionEffects
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.opening import open_rules
from rta_supervisor.session.opening.external_ids import ExternalId, ExternalIds
from rta_supervisor.session.opening.open_sessions import OpenSessions
from rta_supervisor.session.state_machine import SessionEvent
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_wire import errors, session
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State

ConfigChooser = Callable[[str, str, str], Awaitable[str]]
"""Gives the configuration of a session by its identity, the one that it has, and the one that a client wants."""


async def _as_wanted(_identity: str, _bound: str, wanted: str) -> str:
    return wanted


class SessionService:
    """Every change of a session that a request, the silence watchdog or recovery asks for."""

    def __init__(
        self,
        config: settings.Settings,
        sessions: SessionStore,
        effects: SessionEffects,
        external_ids: ExternalIds,
        days: DayIndex,
        *,
        clock: Clock = now_ms,
        open_sessions: OpenSessions | None = None,
    ) -> None:
        self._config = config
        self._sessions = sessions
        self.effects = effects
        self.external_ids = external_ids
        self._days = days
        self._clock = clock
        self._open_sessions = open_sessions or OpenSessions(config)
        self.choose_config: ConfigChooser = _as_wanted
        """Which configuration a session gets: set by what knows configurations."""
        self._log = log.get()

    async def open(self, entry: ControlEntry, request: control_pb2.OpenSession) -> control_pb2.SessionReply:
        """Open a new session, or give the one that the same identity or external id stands for."""
        document = self._check_open(entry.principal, request)
        if request.external_id:
            external_id = ExternalId(entry.principal, request.external_id)
            record = await self.external_ids.open(external_id, request, document, self._open_identity)
        else:
            record = await self._open_identity(entry.principal, request, document)
        await self.effects.publish_opening(record)
        if request.config_identifier not in ("", record.config):
            # A job that starts again may have more channels than before.
            record = await self._bind(record, patch.Patch({}, entry.id, request.config_identifier))
        return reply_of(record)

    async def _bind(self, record: SessionRecord, update: patch.Patch) -> SessionRecord:
        """Bind a session that is there to another configuration, unless a later request has changed its bindings."""
        latest = await self._sessions.read(record.ref.identity, update.names)
        return record if latest is None else await self._apply(latest, SessionEvent.DESCRIBE, update=update)

    async def _open_identity(
        self, principal: str, request: control_pb2.OpenSession, document: session.Json
    ) -> SessionRecord:
        """The open session of an identity, new or not. Raises where it belongs to another session."""
        record = await self._sessions.read(request.identity)
        if record is None:
            record = await self._create(principal, request, document)
        else:
            counters.counts.opened_again += 1
        open_rules.check_same(record, principal, request)
        return record

    def _check_open(self, principal: str, request: control_pb2.OpenSession) -> session.Json:
        """The Session JSON of a valid request."""
        document = session.parse(request.session_json)
        config_bindings.check_count(document)
        if document["identity"] != request.identity:
            raise errors.BadSessionJson(where="$.identity", reason=f"it is not {request.identity!r}")
        state_machine.check_initial(State(document["state"]))
        prefix = self._config.control.stream_prefixes.get(principal, "")
        if not request.stream.startswith(prefix):
            raise errors.ForeignStream(principal=principal, stream=request.stream, prefix=prefix)
        return document

    async def _create(self, principal: str, request: control_pb2.OpenSession, document: session.Json) -> SessionRecord:
        """A new session, or the one that another supervisor has created meanwhile."""
        self._open_sessions.add(principal, request.identity)
        try:
            record = await self._write_new(principal, request, document)
        except BaseException:
            self._open_sessions.remove(principal, request.identity)
            raise
        if record is not None:
            counters.counts.opened += 1
            ref = record.ref
            self._log.info("session_opened", session=ref.identity, stream=ref.stream, id=ref.stream_session_id)
            return record
        self._open_sessions.remove(principal, request.identity)
        record = await self._sessions.read(request.identity)
        if record is None:
            raise errors.SessionConflict(identity=request.identity, what="an owner", theirs="unknown", ours=principal)
        return record

    async def _write_new(
        self, principal: str, request: control_pb2.OpenSession, document: session.Json
    ) -> SessionRecord | None:
        """A new session; None where there is one of its identity."""
        state = State(document["state"])
        if request.config_identifier:
            await self.choose_config(request.identity, "", request.config_identifier)
            bindings = config_bindings.bind(document, request.config_identifier, "")
            document = document | {config_bindings.PROPERTY: bindings}
        raw = session.dump(session.with_supervisor_properties(document, state, None))
        stream = await self._days.stream_for(request.stream)
        stream_session_id, position = await self.effects.allocate_id(stream)
        ref = SessionRef(request.identity, stream, stream_session_id)
        at_ms = self._clock()
        new = SessionRecord(
            ref,
            state,
            principal,
            server_functions.FIRST_VERSION,
            opened_ms=at_ms,
            document=raw,
            external_id=request.external_id,
            config=request.config_identifier,
        )
        return await self.effects.create(new, position=position, at_ms=at_ms)

    async def update(self, entry: ControlEntry, request: control_pb2.UpdateSession) -> control_pb2.SessionReply:
        """Change properties, pause or resume. Updates are ordered by entry id: a late one changes nothing newer."""
        properties = session.parse_properties(request.properties_json or "{}")
        config_bindings.check_count(properties)
        update = patch.Patch(properties, entry.id, request.config_identifier)
        identity = request.identity
        if request.external_id:
            identity = await self.external_ids.identity_of(ExternalId(entry.principal, request.external_id))
        record = await self._read_authorized(entry.principal, identity, properties=update.names)
        if request.state:
            record = await self._apply(record, state_machine.REQUESTED_EVENTS[State(request.state)], update=update)
        if update.property_names:
            record = await self._apply(record, SessionEvent.DESCRIBE, update=update)
        return reply_of(record)

    async def close(self, entry: ControlEntry, request: control_pb2.CloseSession) -> control_pb2.SessionReply | Wait:
        """Close a session once everything that is expected has arrived; wait while it has not and may still come."""
        operators = self._config.control.operators
        record = await self._read_authorized(entry.principal, request.identity, others=operators)
        expected = Totals.from_message(request.expected)
        # Marks that the totals do not need are read after the gate is shut.
        is_open = not record.state.is_closed
        if is_open and not record.totals.has_arrived(expected) and await self._sessions.fold_marks(record.ref):
            record = await self._sessions.read(request.identity) or record
        # Another supervisor that got the same request may close it meanwhile: `end` finds that out.
        if not record.state.is_closed:
            is_complete = record.totals.has_arrived(expected)
            is_within_grace = time_limits.is_within_close_grace(entry.sent_ms, self._clock(), self._config.session)
            if state_machine.waits_for_data(is_complete=is_complete, is_within_grace=is_within_grace):
                until_ms = time_limits.close_grace_ends_ms(entry.sent_ms, self._config.session)
                return Wait(request.identity, until_ms, lambda progress: progress.has_arrived(expected))
            event = state_machine.closing_event(State(request.state), is_complete=is_complete)
            record = await self.end(record, event, expected=expected, requested_by=entry.principal)
        else:
            # Whoever closed it may have died before the last entry.
            await self._publish_end(record)
            await self.effects.queue_webhooks(record)
        return reply_of(record, missing=record.totals.missing_from(expected))

    async def end(
        self,
        record: SessionRecord,
        event: SessionEvent,
        *,
        expected: Totals | None = None,
        requested_by: str = "",
        until_ms: int = commands.FOREVER,
    ) -> SessionRecord:
        """Bring a session to a final state. `requested_by`: the principal that asked for it; empty where none did.

        Under a lease it is not begun after `until_ms`.
        """
        event = state_machine.after_loss(event, has_loss=record.lost_data)
        ended = await self._apply(record, event, until_ms=until_ms)
        facts = {
            "session": ended.ref.identity,
            "stream": ended.ref.stream,
            "state": ended.state.value,
            "samples": ended.totals.samples,
        }
        if requested_by not in ("", ended.principal):
            facts["by"] = requested_by
        if expected is not None and (missing := ended.totals.missing_from(expected)) is not None:
            facts |= {"missing_bursts": missing.bursts, "missing_samples": missing.samples}
        counters.counts.closed[ended.state.value] += 1
        self._open_sessions.remove(ended.principal, ended.ref.identity)
        self._log.info("session_closed", **facts)
        return ended

    async def complete_close(self, record: SessionRecord) -> None:
        """Publish the end of a closed session: the supervisor that closed it may have died before the last entry."""
        await self._publish_end(record)
        await self.effects.announce_change(record)

    async def _publish_end(self, record: SessionRecord) -> None:
        if record.state.is_closed:
            await self.effects.publish_end(record)

    async def _read_authorized(
        self, principal: str, identity: str, *, others: Collection[str] = (), properties: Collection[str] = ()
    ) -> SessionRecord:
        """A session that a principal may change: its own, or any where the principal is one of `others`."""
        record = await self._sessions.read(identity, properties)
        if record is None:
            raise errors.UnknownSession(identity=identity)
        if record.principal != principal and principal not in others:
            raise errors.SessionConflict(
                identity=identity, what="the principal", theirs=record.principal, ours=principal
            )
        return record

    async def _apply(
        self,
        record: SessionRecord,
        event: SessionEvent,
        *,
        update: patch.Patch | None = None,
        until_ms: int = commands.FOREVER,
    ) -> SessionRecord:
        """Bring about all effects of an event. Where another supervisor was faster, start again from its result."""
        wanted = update
        while True:
            update = await self._with_config(record, wanted)
            is_stale = update is not None and not update.has_newer(
                record.property_entry_ids, about_state=event is not SessionEvent.DESCRIBE
            )
            step = state_machine.transition(record.state, event, is_stale=is_stale)
            changed = await self.effects.perform(record, step, update, until_ms)
            if changed is not None:
                await self.effects.announce_change(changed)
                return changed
            latest = await self._sessions.read(record.ref.identity, () if wanted is None else wanted.names)
            if latest is None:
                raise errors.UnknownSession(identity=record.ref.identity)
            if state_machine.was_closed_meanwhile(latest.state, event):
                await self._publish_end(latest)
                await self.effects.queue_webhooks(latest)
                return latest
            record = latest

    async def _with_config(self, record: SessionRecord, update: patch.Patch | None) -> patch.Patch | None:
        """The update with the configuration that the session gets: none where it has that already. Raises where it has
        got channels that the wanted one does not know."""
        if update is None or not update.config:
            return update
        bound = record.config if record.config in config_bindings.identifiers_in(record.document) else ""
        chosen = await self.choose_config(record.ref.identity, bound, update.config)
        return update if chosen == update.config else msgspec.structs.replace(update, config="")


def reply_of(record: SessionRecord, *, missing: Totals | None = None) -> control_pb2.SessionReply:
    """The reply to a request about a session."""
    reply = control_pb2.SessionReply(
        identity=record.ref.identity,
        stream=record.ref.stream,
        stream_session_id=record.ref.stream_session_id,
        state=record.state.value,
        totals=record.totals.to_message(),
    )
    if missing is not None:
        reply.missing.CopyFrom(missing.to_message())
    return reply
