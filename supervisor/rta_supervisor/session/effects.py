"""Brings the effects of a transition about in Redis, in the order that the state machine gives.

Order matters across slots: the hash before the stream entry, so that a reader who joins between the two sees the new
JSON twice rather than never.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from rta_supervisor.nodes import leases
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.session import functions, patch
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.state_machine import Effect, Transition
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import keys, session
from rta_wire.session import State


class StateChangeOutbox(Protocol):
    """Where changes of state are queued for webhooks."""

    def field_for(self, version: int, state: State, previous: State | None, at_ms: int) -> tuple[str, ...]:
        """Field and value to be written with a change of state; nothing where no webhook wants it."""

    async def enqueue_pending(self, record: SessionRecord) -> None:
        """Queue the changes that are noted in a record."""


class SessionEffects:
    """Writes to the hash, the folded state and the stream of a session. Decides nothing."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        sessions: SessionStore,
        on_change: Callable[[str], None],
        *,
        outbox: StateChangeOutbox | None = None,
        clock: Clock = now_ms,
    ) -> None:
        """`on_change`: called with the identity of each session that changed."""
        self._link = link
        self._config = config
        self._keys = config.keys
        self._sessions = sessions
        self._on_change = on_change
        self._outbox = outbox
        self._clock = clock

    async def create(
        self,
        ref: SessionRef,
        document: session.Json,
        *,
        state: State,
        principal: str,
        position: str,
        extra_fields: Mapping[str, commands.Argument] | None = None,
    ) -> bool:
        """Write a session that is not there. Whether it was not there.

        `extra_fields`: more of the folded state, for a session that is restored.
        """
        fields = dict(extra_fields or {})
        change = self._change_field(int(fields.get(keys.VERSION, 1)), state, None)
        new = functions.NewSession(
            identity=ref.identity,
            stream_session_id=ref.stream_session_id,
            stream=ref.stream,
            position=position,
            json=session.dump(document),
            state=state.value,
            principal=principal,
            now_ms=self._clock(),
            ttl_s=self._config.session.open_ttl_s,
            extra_fields={**fields, **dict(zip(change[::2], change[1::2], strict=True))},
        )
        is_new, *_ = await self._link.do(*functions.open_session(self._keys, new))
        return bool(is_new)

    async def publish_opening(self, record: SessionRecord) -> None:
        """The first entry, and the session in every list that it belongs to."""
        ref = record.ref
        ttl_s = self._config.session.open_ttl_s
        await self._link.do_in_order(
            [
                functions.publish_opening(
                    self._keys, ref.stream, ref.stream_session_id, record.versioned_json, ttl_s=ttl_s
                ),
                ("SADD", keys.STREAMS, ref.stream),
                ("ZADD", self._keys.session_index(), "GT", self._clock(), ref.identity),
                ("ZADD", self._keys.streams_used(), "GT", self._clock(), ref.stream),
            ]
        )
        await self.announce_change(record)

    async def perform(self, record: SessionRecord, step: Transition, update: patch.Patch | None, until_ms: int) -> bool:
        """All effects of a transition. False: another supervisor changed the session first, and the rest is left."""
        for effect in step.effects:
            if effect is Effect.SEAL:
                await self._seal(record.ref, until_ms)
            elif effect is Effect.PUBLISH_TIME_RANGE:
                await self._sessions.refresh([record.ref])
                record = await self._sessions.read(record.ref.identity) or record
            elif effect is Effect.PUT_JSON:
                if not await self._put_json(record, step.state, update):
                    return False
                record = await self._sessions.read(record.ref.identity) or record
            elif effect is Effect.PUBLISH_JSON:
                await self._publish_json(record.ref, record.versioned_json)
            else:
                await self.publish_end(record)
        return True

    async def publish_end(self, record: SessionRecord) -> None:
        """The last entry of a closed session. Repeating it changes nothing."""
        ref = record.ref
        ttl_s = self._config.session.closed_ttl_s
        await self._link.do(
            *functions.publish_end(self._keys, ref.stream, ref.stream_session_id, record.versioned_json, ttl_s=ttl_s)
        )

    async def replace_json(self, record: SessionRecord, document: str, version: int) -> None:
        """Newer JSON of a session from the catalogue, and a version after it: Redis came back with an older one."""
        raw = session.dump(session.with_supervisor_properties(session.parse(document), *_life(record)))
        if await self._link.do(*self._put_json_call(record, raw, record.state, (keys.VERSION, version))):
            await self._publish_json(record.ref, functions.VersionedJson(raw, version + 1))

    async def queue_webhooks(self, record: SessionRecord) -> None:
        """Queue the changes of state that are noted in a record and not queued yet."""
        if self._outbox is not None and record.unqueued_changes:
            await self._outbox.enqueue_pending(record)

    async def announce_change(self, record: SessionRecord) -> None:
        """After a change: to webhooks and to the catalogue."""
        await self.queue_webhooks(record)
        self._on_change(record.ref.identity)

    async def _seal(self, ref: SessionRef, until_ms: int) -> None:
        ttl_s = self._config.session.open_ttl_s
        marks = await self._link.do(
            *functions.seal(self._keys, ref.stream, ref.stream_session_id, ttl_s=ttl_s, until_ms=until_ms)
        )
        if marks is None:
            raise leases.LeaseExpired
        await self._sessions.fold_marks(ref, marks)

    async def _publish_json(self, ref: SessionRef, json: functions.VersionedJson) -> None:
        ttl_s = self._config.session.open_ttl_s
        await self._link.do(*functions.publish_json(self._keys, ref.stream, ref.stream_session_id, json, ttl_s=ttl_s))

    async def _put_json(self, record: SessionRecord, state: State, update: patch.Patch | None) -> bool:
        document = session.parse(record.document)
        fields: tuple[commands.Argument, ...] = ()
        if update is not None:
            changed = update.newer_properties(record.property_entry_ids)
            document |= changed
            names = [patch.STATE, *changed] if state is not record.state else [*changed]
            fields = tuple(word for name in names for word in (keys.property_field(name), update.entry_id))
        document = {name: value for name, value in document.items() if value is not None}
        raw = session.dump(session.with_supervisor_properties(document, state, record.totals.time_range_ns))
        change = self._change_field(record.version + 1, state, record.state)
        return bool(await self._link.do(*self._put_json_call(record, raw, state, (*fields, *change))))

    def _put_json_call(
        self, record: SessionRecord, raw: bytes, state: State, fields: tuple[commands.Argument, ...]
    ) -> commands.Command:
        arguments = (raw, state.value, self._clock(), self._config.session.open_ttl_s)
        channel = self._keys.state_channel(record.ref.identity)
        return functions.put_json(self._keys, record.ref.identity, record.version, *arguments, channel, *fields)

    def _change_field(self, version: int, state: State, previous: State | None) -> tuple[str, ...]:
        """What is written with a change of state so that webhooks get it, whichever supervisor dies in between."""
        return () if self._outbox is None else self._outbox.field_for(version, state, previous, self._clock())


def _life(record: SessionRecord) -> tuple[State, tuple[int, int] | None]:
    return record.state, record.totals.time_range_ns
