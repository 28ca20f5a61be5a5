"""Opens, updates and closes sessions: takes the effects from the table and brings them about in Redis, in order.

Order matters across slots: the hash before the stream entry, so that a reader who joins between the two sees the new
JSON twice rather than never.
"""

from collections.abc import Callable, Collection

from rta_supervisor.control import deadlines
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes import leases
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.session import functions, state_machine
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.patch import STATE, Patch
from rta_supervisor.session.state_machine import Effect, SessionEvent
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.failures import classify
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import last_generated_id, stream_info_command
from rta_supervisor.webhooks.outbox import Outbox
from rta_wire import day_streams, errors, keys, session
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State


class SessionService:
    """Every change of a session that somebody asked for."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        sessions: SessionStore,
        on_change: Callable[[str], None],
        *,
        outbox: Outbox | None = None,
        clock: Clock = now_ms,
    ) -> None:
        self._link = link
        self._outbox = outbox
        self._keys = config.keys
        self._config = config
        self._stream_prefixes = config.control.stream_prefixes
        self._operators = config.control.operators
        self._sessions = sessions
        self._days = DayIndex(link, config, clock)
        self._on_change = on_change
        self._clock = clock
        self._log = log.get()

    async def open(self, principal: str, request: control_pb2.OpenSession) -> control_pb2.SessionReply:
        """A new session, or the one that stands there for the same identity or external id."""
        document = session.parse(request.session_json)
        if document["identity"] != request.identity:
            raise errors.BadSessionJson(where="$.identity", reason=f"it is not {request.identity!r}")
        state = State(document["state"])
        if state not in (State.WAITING, State.OPEN):
            raise errors.BadSessionJson(where="$.state", reason=f"a session can't begin as {state}")
        prefix = self._stream_prefixes.get(principal, "")
        if not request.stream.startswith(prefix):
            raise errors.ForeignStream(principal=principal, stream=request.stream, prefix=prefix)
        first = await self._first_identity(principal, request)
        if first != request.identity and (known := await self._sessions.read(first)) is not None:
            counters.counts.opened_again += 1
            return reply_of(known)
        known = await self._sessions.read(request.identity)
        if known is None:
            known = await self._open_new(
                principal, request, session.with_supervisor_properties(document, state, None), state
            )
        else:
            counters.counts.opened_again += 1
        _check_same(known, principal, request)
        await self.publish_opening(known)
        return reply_of(known)

    async def _first_identity(self, principal: str, request: control_pb2.OpenSession) -> str:
        """The identity that came first with this external id."""
        if not request.external_id:
            return request.identity
        key = self._keys.external(principal, request.external_id)
        options = ("NX", "GET", "EX", self._config.session.external_id_ttl_s)
        first = await self._link.do("SET", key, request.identity, *options)
        return first.decode() if first is not None else request.identity

    async def _open_new(
        self, principal: str, request: control_pb2.OpenSession, document: session.Json, state: State
    ) -> SessionRecord:
        stream = await self._days.stream_for(request.stream)
        number, end = await self._link.try_all(
            [("INCRBY", keys.LAST_STREAM_SESSION_ID, 1), stream_info_command(stream)]
        )
        if isinstance(number, Exception):
            raise classify(number)
        ref = SessionRef(request.identity, stream, number)
        position = last_generated_id(end)
        if await self.create(ref, document, state=state, principal=principal, position=position):
            counters.counts.opened += 1
            self._log.info("session_opened", session=ref.identity, stream=ref.stream, id=ref.stream_session_id)
        # Another supervisor may have been faster: what stands there counts.
        known = await self._sessions.read(ref.identity)
        if known is None:
            raise errors.SessionConflict(identity=ref.identity, what="an owner", theirs="unknown", ours=principal)
        return known

    async def create(
        self,
        ref: SessionRef,
        document: session.Json,
        *,
        state: State,
        principal: str,
        position: str,
        **extra_fields: commands.Argument,
    ) -> bool:
        """Write a session that is not there. Whether it was not there."""
        note = self._webhook_note(int(extra_fields.get("version", 1)), state, None)
        call = functions.open_session(
            self._keys,
            ref.identity,
            stream_session_id=ref.stream_session_id,
            stream=ref.stream,
            position=position,
            json=session.dump(document),
            state=state.value,
            principal=principal,
            now_ms=self._clock(),
            ttl_s=self._config.session.open_ttl_s,
            channel=self._keys.state_channel(ref.identity),
            extra_fields={**extra_fields, **dict(zip(note[::2], note[1::2], strict=True))},
        )
        is_new, *_ = await self._link.do(*call)
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
        await self._queue_webhooks(record)
        self._on_change(ref.identity)

    async def update(
        self, principal: str, request: control_pb2.UpdateSession, *, entry_id: str
    ) -> control_pb2.SessionReply:
        """Other properties, a pause or its end. `at` orders updates: a late one changes nothing that a newer set."""
        patch = Patch(session.parse_properties(request.properties_json or "{}"), entry_id)
        known = await self._read_authorized(principal, request.identity)
        if request.state:
            event = SessionEvent.PAUSE if request.state == State.WAITING else SessionEvent.RESUME
            known = await self._apply(known, event, patch=patch)
        if patch.properties:
            known = await self._apply(known, SessionEvent.DESCRIBE, patch=patch)
        return reply_of(known)

    async def close(
        self, principal: str, request: control_pb2.CloseSession, *, asked_ms: int
    ) -> control_pb2.SessionReply | None:
        """End a session once everything that is expected has arrived; None while it has not and may still come."""
        known = await self._read_authorized(principal, request.identity, others=self._operators)
        expected = Totals.from_message(request.expected)
        if not known.state.is_closed:
            await self._sessions.fold_marks(known.ref)
            known = await self._sessions.read(request.identity) or known
        # Asked anew: another supervisor that got the same request may have closed it meanwhile.
        if not known.state.is_closed:
            complete = known.totals.has_arrived(expected)
            if not complete and deadlines.is_within_close_grace(asked_ms, self._clock(), self._config.session):
                return None
            event = state_machine.closing_event(State(request.state), complete=complete)
            known = await self.end(known, event, expected=expected, requested_by=principal)
        await self._publish_end(known, known.state)
        await self._queue_webhooks(known)
        return reply_of(known, missing=known.totals.missing_from(expected))

    async def end(
        self,
        record: SessionRecord,
        event: SessionEvent,
        *,
        expected: Totals | None = None,
        requested_by: str = "",
        until_ms: int = commands.FOREVER,
    ) -> SessionRecord:
        """Bring a session to its end. `by`: who asked for it; empty where nobody did.

        Under a lease it is not begun after `until_ms`.
        """
        if record.lost_data and event is SessionEvent.CLOSE:
            event = SessionEvent.TRUNCATE
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
        self._log.info("session_closed", **facts)
        return ended

    async def complete_close(self, record: SessionRecord) -> None:
        """A closed session whose supervisor may have died before its last entry: write that, and put it away."""
        await self._publish_end(record, record.state)
        await self._queue_webhooks(record)
        self._on_change(record.ref.identity)

    async def replace_json(self, record: SessionRecord, document: str, version: int) -> None:
        """Newer JSON of a session from elsewhere, and a version after it: Redis came back with an older one."""
        raw = session.dump(
            session.with_supervisor_properties(session.parse(document), record.state, record.totals.time_range_ns)
        )
        words = (raw, record.state.value, self._clock(), self._config.session.open_ttl_s)
        channel = self._keys.state_channel(record.ref.identity)
        call = functions.put_json(self._keys, record.ref.identity, record.version, *words, channel, "version", version)
        if await self._link.do(*call):
            await self._publish_json(record.ref, functions.VersionedJson(raw, version + 1))

    async def _read_authorized(self, principal: str, identity: str, *, others: Collection[str] = ()) -> SessionRecord:
        """A session of the one who asks, or, for `others`, of anybody."""
        known = await self._sessions.read(identity)
        if known is None:
            raise errors.UnknownSession(identity=identity)
        if known.principal != principal and principal not in others:
            raise errors.SessionConflict(
                identity=identity, what="the principal", theirs=known.principal, ours=principal
            )
        return known

    async def _apply(
        self, known: SessionRecord, event: SessionEvent, *, patch: Patch | None = None, until_ms: int = commands.FOREVER
    ) -> SessionRecord:
        """All effects of an event. Where somebody else was faster, start again from what stands there now."""
        identity = known.ref.identity
        while True:
            step = state_machine.transition(known.state, event)
            if patch is not None and not patch.has_newer(
                known.property_entry_ids, about_state=event is not SessionEvent.DESCRIBE
            ):
                # A newer request overtook it, or it was applied by a supervisor that told nobody.
                step = state_machine.Transition(known.state, (Effect.PUBLISH_JSON,))
            if await self._perform(known, step, patch, until_ms):
                break
            latest = await self._sessions.read(identity)
            if latest is None:
                raise errors.UnknownSession(identity=identity)
            if latest.state.is_closed and not known.state.is_closed and event is not SessionEvent.DESCRIBE:
                return latest
            known = latest
        known = await self._sessions.read(identity) or known
        await self._queue_webhooks(known)
        self._on_change(identity)
        return known

    async def _perform(
        self, known: SessionRecord, step: state_machine.Transition, patch: Patch | None, until_ms: int
    ) -> bool:
        for effect in step.effects:
            if effect is Effect.SEAL:
                await self._seal(known.ref, until_ms)
            elif effect is Effect.PUBLISH_TIME_RANGE:
                await self._sessions.refresh([known.ref])
                known = await self._sessions.read(known.ref.identity) or known
            elif effect is Effect.PUT_JSON:
                if not await self._put_json(known, step.state, patch):
                    return False
                known = await self._sessions.read(known.ref.identity) or known
            elif effect is Effect.PUBLISH_JSON:
                await self._publish_json(known.ref, known.versioned_json)
            else:
                await self._publish_end(known, step.state)
        return True

    async def _seal(self, ref: SessionRef, until_ms: int) -> None:
        ttl_s = self._config.session.open_ttl_s
        marks = await self._link.do(
            *functions.seal(self._keys, ref.stream, ref.stream_session_id, ttl_s=ttl_s, until_ms=until_ms)
        )
        if marks is None:
            raise leases.LeaseExpired
        await self._sessions.fold_marks(ref, marks)

    async def _publish_json(self, ref: SessionRef, told: functions.VersionedJson) -> None:
        ttl_s = self._config.session.open_ttl_s
        await self._link.do(*functions.publish_json(self._keys, ref.stream, ref.stream_session_id, told, ttl_s=ttl_s))

    async def _put_json(self, known: SessionRecord, state: State, patch: Patch | None) -> bool:
        document = session.parse(known.document)
        fields: list[commands.Argument] = []
        if patch is not None:
            changed = patch.newer_properties(known.property_entry_ids)
            document |= changed
            names = [STATE, *changed] if state is not known.state else [*changed]
            fields = [word for name in names for word in (f"p:{name}", patch.entry_id)]
        document = {name: value for name, value in document.items() if value is not None}
        raw = session.dump(session.with_supervisor_properties(document, state, known.totals.time_range_ns))
        words = (raw, state.value, self._clock(), self._config.session.open_ttl_s)
        channel = self._keys.state_channel(known.ref.identity)
        fields += self._webhook_note(known.version + 1, state, known.state)
        call = functions.put_json(self._keys, known.ref.identity, known.version, *words, channel, *fields)
        return bool(await self._link.do(*call))

    def _webhook_note(self, version: int, state: State, previous: State | None) -> tuple[str, ...]:
        """What is written with a change of state so that webhooks hear of it, whoever dies in between."""
        return () if self._outbox is None else self._outbox.field_for(version, state, previous, self._clock())

    async def _queue_webhooks(self, known: SessionRecord) -> None:
        if self._outbox is not None and known.unqueued_changes:
            await self._outbox.enqueue_pending(known)

    async def _publish_end(self, known: SessionRecord, state: State) -> None:
        if state.is_closed:
            ref = known.ref
            ttl_s = self._config.session.closed_ttl_s
            await self._link.do(
                *functions.publish_end(self._keys, ref.stream, ref.stream_session_id, known.versioned_json, ttl_s=ttl_s)
            )


def reply_of(record: SessionRecord, *, missing: Totals | None = None) -> control_pb2.SessionReply:
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


def _check_same(known: SessionRecord, principal: str, request: control_pb2.OpenSession) -> None:
    identity = request.identity
    if known.principal != principal:
        raise errors.SessionConflict(identity=identity, what="the principal", theirs=known.principal, ours=principal)
    if not day_streams.is_stream_of(known.ref.stream, request.stream):
        raise errors.SessionConflict(identity=identity, what="the stream", theirs=known.ref.stream, ours=request.stream)
    if known.state.is_closed:
        raise errors.SessionClosed(identity=identity, state=known.state.value)
