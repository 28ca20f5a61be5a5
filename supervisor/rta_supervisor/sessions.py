"""Opens, folds and closes sessions: the order of effects in Redis, each of which may be repeated.

Order matters across slots: the hash before the stream entry, so that a reader who joins between the two sees the new
JSON twice rather than never.
"""

import time
from collections.abc import Iterable, Mapping

import msgspec
import redis.exceptions

from rta_supervisor import calls, lifecycle, log, settings
from rta_supervisor.link import Link, pairs
from rta_wire import control_pb2, errors, keys, session
from rta_wire.session import State
from rta_wire.totals import Mark, Totals


class Ref(msgspec.Struct, frozen=True):
    """Which session, and where its entries stand."""

    identity: str
    stream: str
    stream_session_id: int


class Known(msgspec.Struct, frozen=True):
    """What is folded about a session."""

    ref: Ref
    state: State
    principal: str
    version: int
    totals: Totals


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Sessions:
    """Everything that changes a session. Holds no state of its own: any supervisor may serve any session."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config.session
        self._log = log.get()

    async def open(self, principal: str, request: control_pb2.OpenSession) -> control_pb2.SessionReply:
        """A new session, or the one that stands there with the same stream and principal."""
        document = session.parse(request.session_json)
        if document["identity"] != request.identity:
            raise errors.BadSessionJson(where="$.identity", reason=f"it is not {request.identity!r}")
        known = await self.read(request.identity)
        if known is None:
            known = await self._create(principal, request, session.with_life(document, State.OPEN, None))
        _check_same(known, principal, request)
        await self._announce(known)
        return reply_of(known)

    async def _create(self, principal: str, request: control_pb2.OpenSession, document: session.Json) -> Known:
        ref = Ref(request.identity, request.stream, await self._link.do("INCRBY", keys.LAST_STREAM_SESSION_ID, 1))
        call = calls.open_session(
            self._keys,
            ref.identity,
            stream_session_id=ref.stream_session_id,
            stream=ref.stream,
            position=await self._last_entry_id(ref.stream),
            json=session.dump(document),
            state=State.OPEN.value,
            principal=principal,
            now_ms=now_ms(),
            ttl_s=self._config.open_ttl_s,
        )
        is_new, *_ = await self._link.do(*call)
        if is_new:
            self._log.info("session_opened", session=ref.identity, stream=ref.stream, id=ref.stream_session_id)
        # Another supervisor may have been faster: what stands there counts.
        known = await self.read(ref.identity)
        if known is None:
            raise errors.SessionConflict(identity=ref.identity, what="an owner", theirs="unknown", ours=principal)
        return known

    async def _announce(self, known: Known) -> None:
        ref = known.ref
        document = await self._link.do("HGET", self._keys.session(ref.identity), keys.JSON)
        ttl_s = self._config.open_ttl_s
        await self._link.do_all(
            [
                calls.announce(self._keys, ref.stream, ref.stream_session_id, document or b"", ttl_s=ttl_s),
                ("SADD", keys.STREAMS, ref.stream),
                ("ZADD", self._keys.index(), now_ms(), ref.identity),
            ]
        )

    async def fold(self, reports: Mapping[tuple[str, int], Mapping[str, Totals]]) -> list[tuple[Ref, str]]:
        """Join reports into sessions, keyed by (identity, stream session id). Gives the outcome of each."""
        batch = [calls.fold(self._keys, *session_key, units) for session_key, units in reports.items()]
        answers = await self._link.do_all(batch)
        return [
            (Ref(identity, stream.decode(), number), outcome.decode())
            for (identity, number), (outcome, stream) in zip(reports, answers, strict=True)
        ]

    async def close(
        self, principal: str, request: control_pb2.CloseSession, *, asked_ms: int
    ) -> control_pb2.SessionReply | None:
        """End a session once everything that is expected has arrived; None while it has not and may still come."""
        known = await self.read(request.identity)
        if known is None:
            raise errors.UnknownSession(identity=request.identity)
        if known.principal != principal:
            raise errors.SessionConflict(
                identity=request.identity, what="the principal", theirs=known.principal, ours=principal
            )
        if known.state.is_closed:
            await self._finish(known)
            return reply_of(known)
        expected = Totals.from_message(request.expected)
        known = await self._with_marks(
            known,
            await self._link.do("HGETALL", self._keys.marks(known.ref.stream, known.ref.stream_session_id)),
        )
        complete = known.totals.covers(expected)
        if not complete and now_ms() < asked_ms + self._config.close_grace_s * 1000:
            return None
        ended = await self._end(known, State(request.state), expected, complete=complete)
        return reply_of(ended)

    async def _end(self, known: Known, asked: State, expected: Totals, *, complete: bool) -> Known:
        ref = known.ref
        sealed = await self._link.do(
            *calls.seal(self._keys, ref.stream, ref.stream_session_id, ttl_s=self._config.closed_ttl_s)
        )
        known = await self._with_marks(known, sealed)
        await self.refresh([ref])
        while True:
            state = lifecycle.after(known.state, lifecycle.ending(asked, complete=complete))
            if await self._put_json(known, state):
                break
            again = await self.read(ref.identity)
            if again is None:
                raise errors.UnknownSession(identity=ref.identity)
            if again.state.is_closed:
                known = again
                break
            known = again
        ended = await self.read(ref.identity) or known
        await self._finish(ended)
        facts = {} if complete else {"expected": expected.samples, "missing": expected.samples - ended.totals.samples}
        self._log.info(
            "session_closed",
            session=ref.identity,
            state=ended.state.value,
            samples=ended.totals.samples,
            **facts,
        )
        return ended

    async def _put_json(self, known: Known, state: State) -> bool:
        raw = await self._link.do("HGET", self._keys.session(known.ref.identity), keys.JSON)
        if raw is None:
            raise errors.UnknownSession(identity=known.ref.identity)
        document = session.with_life(session.parse(raw), state, known.totals.time_range_ns)
        ttl_s = self._config.closed_ttl_s if state.is_closed else self._config.open_ttl_s
        words = (session.dump(document), state.value, now_ms(), ttl_s)
        return bool(await self._link.do(*calls.put_json(self._keys, known.ref.identity, known.version, *words)))

    async def _finish(self, known: Known) -> None:
        ref = known.ref
        document = await self._link.do("HGET", self._keys.session(ref.identity), keys.JSON)
        ttl_s = self._config.closed_ttl_s
        await self._link.do(*calls.finish(self._keys, ref.stream, ref.stream_session_id, document or b"", ttl_s=ttl_s))
        await self._link.do("ZREM", self._keys.index(), ref.identity)

    async def refresh(self, refs: Iterable[Ref]) -> list[Ref]:
        """Show readers the time ranges that they have not seen. Gives the sessions that are open no more."""
        wanted = list(refs)
        at_ms = now_ms()
        ttl_s = self._config.open_ttl_s
        shown = await self._link.do_all(
            [
                calls.refresh(self._keys, ref.identity, ref.stream_session_id, now_ms=at_ms, ttl_s=ttl_s)
                for ref in wanted
            ]
        )
        await self._link.do_all(
            [
                calls.time_range(ref.stream, ref.stream_session_id, int(answer[1]), int(answer[2]))
                for ref, answer in zip(wanted, shown, strict=True)
                if answer and answer[0]
            ]
        )
        return [ref for ref, answer in zip(wanted, shown, strict=True) if not answer]

    async def keep(self, refs: Iterable[Ref]) -> None:
        """Keep the gates of open sessions from expiring."""
        ttl_s = self._config.open_ttl_s
        await self._link.do_all(
            [calls.keep(self._keys, ref.stream, ref.stream_session_id, ttl_s=ttl_s) for ref in refs]
        )

    async def read(self, identity: str) -> Known | None:
        """What is folded about a session, None where there is none."""
        fields = pairs(await self._link.do("HGETALL", self._keys.state(identity)))
        return _known(identity, {name.decode(): value.decode() for name, value in fields.items()}) if fields else None

    async def live(self) -> list[Ref]:
        """Every session in the index, with its place."""
        identities = [raw.decode() for raw in await self._link.do("ZRANGE", self._keys.index(), 0, -1)]
        places = await self._link.do_all(
            [("HMGET", self._keys.state(identity), "streamName", "streamSessionId") for identity in identities]
        )
        gone = [identity for identity, (stream, _) in zip(identities, places, strict=True) if stream is None]
        if gone:
            self._log.warning("sessions_expired", sessions=gone)
            await self._link.do("ZREM", self._keys.index(), *gone)
        return [
            Ref(identity, stream.decode(), int(number))
            for identity, (stream, number) in zip(identities, places, strict=True)
            if stream is not None
        ]

    async def _with_marks(self, known: Known, marks: list[bytes]) -> Known:
        """Marks stand beside the data and never lag behind it: fold them like reports."""
        units = {unit.decode(): Mark.from_text(mark.decode()).totals for unit, mark in pairs(marks).items()}
        if not units:
            return known
        await self.fold({(known.ref.identity, known.ref.stream_session_id): units})
        return await self.read(known.ref.identity) or known

    async def _last_entry_id(self, stream: str) -> str:
        try:
            info = pairs(await self._link.do("XINFO", "STREAM", keys.stream(stream)))
        except redis.exceptions.ResponseError as error:
            if "no such key" in str(error):
                return "0-0"
            raise
        return info[b"last-generated-id"].decode()


def reply_of(known: Known) -> control_pb2.SessionReply:
    return control_pb2.SessionReply(
        identity=known.ref.identity,
        stream=known.ref.stream,
        stream_session_id=known.ref.stream_session_id,
        state=known.state.value,
        totals=known.totals.to_message(),
    )


def _known(identity: str, fields: Mapping[str, str]) -> Known:
    counts = [fields.get(name, "0") for name in ("bursts", "samples", "rawBytes", "storedBytes")]
    times = [fields.get(name, "-") for name in (keys.T_START, keys.T_END)]
    return Known(
        Ref(identity, fields[keys.STREAM_NAME], int(fields[keys.STREAM_SESSION_ID])),
        State(fields["state"]),
        fields["principal"],
        int(fields["version"]),
        Totals.from_words([*counts, *times]),
    )


def _check_same(known: Known, principal: str, request: control_pb2.OpenSession) -> None:
    identity = request.identity
    if known.principal != principal:
        raise errors.SessionConflict(identity=identity, what="the principal", theirs=known.principal, ours=principal)
    if known.ref.stream != request.stream:
        raise errors.SessionConflict(identity=identity, what="the stream", theirs=known.ref.stream, ours=request.stream)
    if known.state.is_closed:
        raise errors.SessionClosed(identity=identity, state=known.state.value)
