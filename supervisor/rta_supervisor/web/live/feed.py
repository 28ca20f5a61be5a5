"""Looks at Redis once a second for all pages together, and not at all while nobody watches.

There is no task of its own: of the pages that wait for the next look, one does it and the others share it. When that
one goes away, another takes its place.
"""

from typing import Any, Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.control.dead_letters import DeadLetter, DeadLetters
from rta_supervisor.diagnostics.recent_events import RECENT_EVENTS
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe.queries import RedisQueries, SessionSummary
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.web.context import WebContext
from rta_supervisor.web.live import snapshot
from rta_supervisor.web.live.snapshot import DeadLetterRow, DeploymentSummary, Snapshot
from rta_wire import __version__, errors, keys

EVERY_S: Final = 1.0
LOOK_TIMEOUT_S: Final = 2.5
SESSIONS_MAX: Final = 500
ENDED_MAX: Final = 100
"""Sessions that are closed and put away and are shown all the same."""

STREAMS_MAX: Final = 100
LETTERS_SHOWN: Final = 20
REASON_MAX_CHARS: Final = 500

Numbered = tuple[int, bytes]


class SnapshotFeed:
    """The newest look, and what it changed."""

    def __init__(self, parts: WebContext) -> None:
        self._parts = parts
        self._overview = RedisQueries(parts.link, parts.config)
        self._dead_letters = DeadLetters(parts.link, parts.config)
        self._lock = anyio.Lock()
        self._rates = snapshot.Rates()
        self._ended: dict[str, SessionSummary] = {}
        self._opened = b""
        self._now: Snapshot | None = None
        self._changes: bytes = b""
        self._due_s = 0.0

    async def next_update(self, seen: int) -> Numbered:
        """The next look after the one with that number, as JSON: what changed, or everything for who missed one."""
        async with self._lock:
            is_old = anyio.current_time() > self._due_s + EVERY_S
            if self._now is None or self._now.number <= seen or is_old:
                await self._wait()
                await self._look_again()
            now = self._now
            assert now is not None
            if seen == now.number - 1 and self._changes:
                return now.number, self._changes
            # Who comes between two looks gets the last one.
            return now.number, self._encode(snapshot.full_update(now, self._rates.history(), RECENT_EVENTS.after(0)))

    async def _wait(self) -> None:
        """Until the next look is due, or the server ends."""
        with anyio.move_on_after(max(0.0, self._due_s - anyio.current_time())):
            await self._parts.closing.wait()
        self._due_s = anyio.current_time() + EVERY_S

    async def _look_again(self) -> None:
        before = self._now
        at_ms = now_ms()
        try:
            with anyio.fail_after(LOOK_TIMEOUT_S):
                now = await self._take_snapshot(at_ms)
        except (*RETRIABLE_ERRORS, redis.exceptions.RedisError, errors.RtaError) as error:
            now = self._stale_snapshot(at_ms, str(error) or "Redis does not answer")
        self._now = now
        if before is None:
            self._changes = b""
        else:
            self._changes = self._encode(snapshot.delta_update(before, now, RECENT_EVENTS.after(before.last_event)))

    async def _take_snapshot(self, at_ms: int) -> Snapshot:
        # Read first: a session that opens in between shows in the next look, however short it lives.
        opened = await self._parts.link.do("GET", keys.LAST_STREAM_SESSION_ID) or b""
        heard = await self._overview.identities()
        newest = list(heard)[:SESSIONS_MAX]
        live = await self._overview.some_sessions(newest, heard)
        lines = [*live, *await self._ended_lines(live, opened)]
        rates = self._rates.update(lines, at_ms)
        streams = await self._overview.streams(live)
        verdict = self._parts.health.readiness()
        rest = DeploymentSummary(
            node=self._parts.node_id,
            version=__version__,
            problem="" if verdict.is_ready else verdict.reason,
            server=await self._overview.server(),
            total_sessions=len(heard),
            streams=tuple(streams[:STREAMS_MAX]),
            total_streams=len(streams),
            nodes=tuple(await self._overview.nodes()),
            lanes=tuple(await self._overview.control_streams()),
            dead_letters=await self._dead_letters.count(),
            letters=tuple(await self._letters()),
            webhooks=await self._webhooks(),
        )
        rows = {line.identity: snapshot.row(line, rates[line.identity]) for line in lines}
        return Snapshot(self._next_number(), at_ms, rows, rest, self._last_event())

    async def _ended_lines(self, live: list[SessionSummary], opened: bytes) -> list[SessionSummary]:
        """Sessions that are no more among the live ones: those of the look before, and what the catalogue knows."""
        names = {line.identity for line in live}
        candidates = [] if self._now is None else list(self._now.sessions)
        if opened != self._opened:
            candidates += await self._latest()
            self._opened = opened
        unseen = [name for name in dict.fromkeys(candidates) if name not in names and name not in self._ended]
        for line in await self._overview.some_sessions(unseen, {}):
            if line.state.is_closed:
                self._ended[line.identity] = line
        for name in names:
            self._ended.pop(name, None)
        while len(self._ended) > ENDED_MAX:
            del self._ended[min(self._ended.values(), key=lambda line: line.stream_session_id).identity]
        return list(self._ended.values())

    async def _latest(self) -> list[str]:
        try:
            return await self._parts.catalogue.latest(ENDED_MAX)
        except errors.CatalogueUnavailable:
            # Said where it matters: the archivist logs it.
            return []

    async def _letters(self) -> list[DeadLetterRow]:
        letters = await self._dead_letters.newest(LETTERS_SHOWN)
        return [_dead_letter_row(letter) for letter in letters]

    async def _webhooks(self) -> dict[str, int]:
        """How many deliveries wait for each target."""
        names = sorted(self._parts.config.webhooks.to)
        counts = await self._parts.link.do_all([("ZCARD", self._parts.config.keys.hook_due(name)) for name in names])
        return dict(zip(names, counts, strict=True))

    def _stale_snapshot(self, at_ms: int, problem: str) -> Snapshot:
        """What was known before, and that it is old."""
        if self._now is None:
            rest = DeploymentSummary(self._parts.node_id, __version__, problem)
            return Snapshot(self._next_number(), at_ms, {}, rest, self._last_event())
        rest = msgspec.structs.replace(self._now.summary, problem=problem)
        return Snapshot(self._next_number(), at_ms, self._now.sessions, rest, self._last_event())

    def _next_number(self) -> int:
        return 1 if self._now is None else self._now.number + 1

    @staticmethod
    def _last_event() -> int:
        events = RECENT_EVENTS.after(0)
        return events[-1].number if events else 0

    @staticmethod
    def _encode(document: dict[str, Any]) -> bytes:
        return msgspec.json.encode(document)


def _dead_letter_row(letter: DeadLetter) -> DeadLetterRow:
    return DeadLetterRow(letter.letter, letter.lane, letter.code, letter.reason[:REASON_MAX_CHARS])
