"""Opens, updates and closes sessions: takes the effects from the table and brings them about in Redis, in order.

Order matters across slots: the hash before the stream entry, so that a reader who joins between the two sees the new
JSON twice rather than never.
"""

from collections.abc import Callable, Collection

from rta_supervisor.control import deadlines
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes import leases
from rta_supervisor.nodes.time_sync import Clock, now_ms
from rta_supervisor.retention.day_index import Days
from rta_supervisor.session import state_machine
from rta_supervisor.session.model import Known, Ref
from rta_supervisor.session.patch import STATE, Patch
from rta_supervisor.session.state_machine import Effect, Event
from rta_supervisor.session.store import Sessions, end_of, last_id_in
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link, checked
from rta_supervisor.webhooks.outbox import Outbox
from rta_wire import day_streams, errors, keys, session
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State


class Life:
    """Every change of a session that somebody asked for."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        sessions: Sessions,
        on_change: Callable[[str], None],
        *,
        outbox: Outbox | None = None,
        clock: Clock = now_ms,
    ) -> None:
        self._link = link
        self._outbox = outbox
        self._keys = config.keys
        self._config = config.session
        self._stream_prefixes = config.control.stream_prefixes
        self._operators = config.control.operators
        self._sessions = sessions
        self._days = Days(link, config, clock)
        self._on_change = on_change
        self._clock = clock
        self._log = log.get()

    def reconfigure(self, config: settings.Settings) -> None:
        self._config = config.session
        self._days.reconfigure(config)

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
            known = await self._create(principal, request, session.with_life(document, state, None), state)
        else:
            counters.counts.opened_again += 1
        _check_same(known, principal, request)
        await self.announce(known)
        return reply_of(known)

    async def _first_identity(self, principal: str, request: control_pb2.OpenSession) -> str:
        """The identity that came first with this external id."""
        if not request.external_id:
            return request.identity
        key = self._keys.external(principal, request.external_id)
        options = ("NX", "GET", "EX", self._config.external_id_ttl_s)
        first = await self._link.do("SET", key, request.identity, *options)
        return first.decode() if first is not None else request.identity

    async def _create(
        self, principal: str, request: control_pb2.OpenSession, document: session.Json, state: State
    ) -> Known:
        stream = await self._days.stream_for(request.stream)
        number, end = await self._link.try_all([("INCRBY", keys.LAST_STREAM_SESSION_ID, 1), end_of(stream)])
        if isinstance(number, Exception):
            raise checked(number)
        ref = Ref(request.identity, stream, number)
        position = last_id_in(end)
        if await self.put_new(ref, document, state=state, principal=principal, position=position):
            counters.counts.opened += 1
            self._log.info("session_opened", session=ref.identity, stream=ref.stream, id=ref.stream_session_id)
        # Another supervisor may have been faster: what stands there counts.
        known = await self._sessions.read(ref.identity)
        if known is None:
            raise errors.SessionConflict(identity=ref.identity, what="an owner", theirs="unknown", ours=principal)
        return known

    async def put_new(
        self, ref: Ref, document: session.Json, *, state: State, principal: str, position: str, **further: commands.Word
    ) -> bool:
        """Write a session that is not there. Whether it was not there."""
        note = self._note(int(further.get("version", 1)), state, None)
        call = commands.open_session(
            self._keys,
            ref.identity,
            stream_session_id=ref.stream_session_id,
            stream=ref.stream,
            position=position,
            json=session.dump(document),
            state=state.value,
            principal=principal,
            now_ms=self._clock(),
            ttl_s=self._config.open_ttl_s,
            channel=self._keys.state_channel(ref.identity),
            further={**further, **dict(zip(note[::2], note[1::2], strict=True))},
        )
        is_new, *_ = await self._link.do(*call)
        return bool(is_new)

    async def announce(self, known: Known) -> None:
        """The first entry, and the session in every list that it belongs to."""
        ref = known.ref
        ttl_s = self._config.open_ttl_s
        await self._link.do_in_order(
            [
                commands.announce(self._keys, ref.stream, ref.stream_session_id, known.told, ttl_s=ttl_s),
                ("SADD", keys.STREAMS, ref.stream),
                ("ZADD", self._keys.index(), "GT", self._clock(), ref.identity),
                ("ZADD", self._keys.streams_used(), "GT", self._clock(), ref.stream),
            ]
        )
        await self._post(known)
        self._on_change(ref.identity)

    async def update(self, principal: str, request: control_pb2.UpdateSession, *, at: str) -> control_pb2.SessionReply:
        """Other properties, a pause or its end. `at` orders updates: a late one changes nothing that a newer set."""
        patch = Patch(session.parse_properties(request.properties_json or "{}"), at)
        known = await self._own(principal, request.identity)
        if request.state:
            event = Event.PAUSE if request.state == State.WAITING else Event.RESUME
            known = await self._apply(known, event, patch=patch)
        if patch.properties:
            known = await self._apply(known, Event.DESCRIBE, patch=patch)
        return reply_of(known)

    async def close(
        self, principal: str, request: control_pb2.CloseSession, *, asked_ms: int
    ) -> control_pb2.SessionReply | None:
        """End a session once everything that is expected has arrived; None while it has not and may still come."""
        known = await self._own(principal, request.identity, others=self._operators)
        expected = Totals.from_message(request.expected)
        if not known.state.is_closed:
            await self._sessions.fold_marks(known.ref)
            known = await self._sessions.read(request.identity) or known
        # Asked anew: another supervisor that got the same request may have closed it meanwhile.
        if not known.state.is_closed:
            complete = known.totals.covers(expected)
            if not complete and deadlines.may_still_come(asked_ms, self._clock(), self._config):
                return None
            event = state_machine.ending(State(request.state), complete=complete)
            known = await self.end(known, event, expected=expected, by=principal)
        await self._finish(known, known.state)
        await self._post(known)
        return reply_of(known, missing=known.totals.short_of(expected))

    async def end(
        self,
        known: Known,
        event: Event,
        *,
        expected: Totals | None = None,
        by: str = "",
        until_ms: int = commands.FOREVER,
    ) -> Known:
        """Bring a session to its end. `by`: who asked for it; empty where nobody did.

        Under a lease it is not begun after `until_ms`.
        """
        if known.lost_data and event is Event.CLOSE:
            event = Event.TRUNCATE
        ended = await self._apply(known, event, until_ms=until_ms)
        facts = {
            "session": ended.ref.identity,
            "stream": ended.ref.stream,
            "state": ended.state.value,
            "samples": ended.totals.samples,
        }
        if by not in ("", ended.principal):
            facts["by"] = by
        if expected is not None and (missing := ended.totals.short_of(expected)) is not None:
            facts |= {"missing_bursts": missing.bursts, "missing_samples": missing.samples}
        counters.counts.closed[ended.state.value] += 1
        self._log.info("session_closed", **facts)
        return ended

    async def finish_off(self, known: Known) -> None:
        """A closed session whose supervisor may have died before its last entry: write that, and put it away."""
        await self._finish(known, known.state)
        await self._post(known)
        self._on_change(known.ref.identity)

    async def adopt(self, known: Known, document: str, version: int) -> None:
        """Newer JSON of a session from elsewhere, and a version after it: Redis came back with an older one."""
        raw = session.dump(session.with_life(session.parse(document), known.state, known.totals.time_range_ns))
        words = (raw, known.state.value, self._clock(), self._config.open_ttl_s)
        channel = self._keys.state_channel(known.ref.identity)
        call = commands.put_json(self._keys, known.ref.identity, known.version, *words, channel, "version", version)
        if await self._link.do(*call):
            await self._tell(known.ref, commands.Told(raw, version + 1))

    async def _own(self, principal: str, identity: str, *, others: Collection[str] = ()) -> Known:
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
        self, known: Known, event: Event, *, patch: Patch | None = None, until_ms: int = commands.FOREVER
    ) -> Known:
        """All effects of an event. Where somebody else was faster, start again from what stands there now."""
        identity = known.ref.identity
        while True:
            step = state_machine.step(known.state, event)
            if patch is not None and not patch.is_news(known.updated, about_state=event is not Event.DESCRIBE):
                # A newer request overtook it, or it was applied by a supervisor that told nobody.
                step = state_machine.Step(known.state, (Effect.STREAM_JSON,))
            if await self._effects(known, step, patch, until_ms):
                break
            latest = await self._sessions.read(identity)
            if latest is None:
                raise errors.UnknownSession(identity=identity)
            if latest.state.is_closed and not known.state.is_closed and event is not Event.DESCRIBE:
                return latest
            known = latest
        known = await self._sessions.read(identity) or known
        await self._post(known)
        self._on_change(identity)
        return known

    async def _effects(self, known: Known, step: state_machine.Step, patch: Patch | None, until_ms: int) -> bool:
        for effect in step.effects:
            if effect is Effect.SEAL:
                await self._seal(known.ref, until_ms)
            elif effect is Effect.SHOW:
                await self._sessions.refresh([known.ref])
                known = await self._sessions.read(known.ref.identity) or known
            elif effect is Effect.PUT_JSON:
                if not await self._put_json(known, step.state, patch):
                    return False
                known = await self._sessions.read(known.ref.identity) or known
            elif effect is Effect.STREAM_JSON:
                await self._tell(known.ref, known.told)
            else:
                await self._finish(known, step.state)
        return True

    async def _seal(self, ref: Ref, until_ms: int) -> None:
        ttl_s = self._config.open_ttl_s
        marks = await self._link.do(
            *commands.seal(self._keys, ref.stream, ref.stream_session_id, ttl_s=ttl_s, until_ms=until_ms)
        )
        if marks is None:
            raise leases.Over
        await self._sessions.fold_marks(ref, marks)

    async def _tell(self, ref: Ref, told: commands.Told) -> None:
        ttl_s = self._config.open_ttl_s
        await self._link.do(*commands.tell(self._keys, ref.stream, ref.stream_session_id, told, ttl_s=ttl_s))

    async def _put_json(self, known: Known, state: State, patch: Patch | None) -> bool:
        document = session.parse(known.document)
        fields: list[commands.Word] = []
        if patch is not None:
            changed = patch.newer(known.updated)
            document |= changed
            names = [STATE, *changed] if state is not known.state else [*changed]
            fields = [word for name in names for word in (f"p:{name}", patch.at)]
        document = {name: value for name, value in document.items() if value is not None}
        raw = session.dump(session.with_life(document, state, known.totals.time_range_ns))
        words = (raw, state.value, self._clock(), self._config.open_ttl_s)
        channel = self._keys.state_channel(known.ref.identity)
        fields += self._note(known.version + 1, state, known.state)
        call = commands.put_json(self._keys, known.ref.identity, known.version, *words, channel, *fields)
        return bool(await self._link.do(*call))

    def _note(self, version: int, state: State, previous: State | None) -> tuple[str, ...]:
        """What is written with a change of state so that webhooks hear of it, whoever dies in between."""
        return () if self._outbox is None else self._outbox.note(version, state, previous, self._clock())

    async def _post(self, known: Known) -> None:
        if self._outbox is not None and known.untold:
            await self._outbox.tell(known)

    async def _finish(self, known: Known, state: State) -> None:
        if state.is_closed:
            ref = known.ref
            ttl_s = self._config.closed_ttl_s
            await self._link.do(
                *commands.finish(self._keys, ref.stream, ref.stream_session_id, known.told, ttl_s=ttl_s)
            )


def reply_of(known: Known, *, missing: Totals | None = None) -> control_pb2.SessionReply:
    reply = control_pb2.SessionReply(
        identity=known.ref.identity,
        stream=known.ref.stream,
        stream_session_id=known.ref.stream_session_id,
        state=known.state.value,
        totals=known.totals.to_message(),
    )
    if missing is not None:
        reply.missing.CopyFrom(missing.to_message())
    return reply


def _check_same(known: Known, principal: str, request: control_pb2.OpenSession) -> None:
    identity = request.identity
    if known.principal != principal:
        raise errors.SessionConflict(identity=identity, what="the principal", theirs=known.principal, ours=principal)
    if not day_streams.is_of(known.ref.stream, request.stream):
        raise errors.SessionConflict(identity=identity, what="the stream", theirs=known.ref.stream, ours=request.stream)
    if known.state.is_closed:
        raise errors.SessionClosed(identity=identity, state=known.state.value)
