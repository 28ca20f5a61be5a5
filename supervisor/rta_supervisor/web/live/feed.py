"""Takes a snapshot of the deployment once a second for all open pages together, and none while no page is open.

It has no task of its own: of the pages that wait for the next snapshot, one takes it and all others share it. If the
connection of that page ends meanwhile, another page takes over.
"""

from typing import Any, Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.control.dead_letters import DeadLetter, DeadLetters
from rta_supervisor.diagnostics.recent_events import RECENT_EVENTS
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe.queries import RedisQueries
from rta_supervisor.observe.summaries import SessionSummary, sum_by_source
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.web.context import WebContext
from rta_supervisor.web.live import snapshot
from rta_supervisor.web.live.identifiers import IdentifierReader
from rta_supervisor.web.live.snapshot import DeadLetterRow, DeploymentSummary, Snapshot
from rta_wire import __version__, errors, keys, quoting

EVERY_S: Final = 1.0
SNAPSHOT_TIMEOUT_S: Final = 2.5
SESSIONS_MAX: Final = 500
ENDED_SESSIONS_MAX: Final = 100
"""Closed sessions that are no longer in the index of live ones and are shown all the same."""

STREAMS_MAX: Final = 100
DEAD_LETTERS_MAX: Final = 20
REASON_MAX_CHARS: Final = 500


class SnapshotFeed:
    """The newest snapshot, and what changed since the one before it."""

    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._queries = RedisQueries(context.link, context.config)
        self._dead_letters = DeadLetters(context.link, context.config)
        self._lock = anyio.Lock()
        self._rates = snapshot.SampleRates()
        self._identifiers = IdentifierReader(context.link, context.config.keys)
        self._ended: dict[str, SessionSummary] = {}
        self._last_opened = b""
        """The last stream session id that was given when the catalogue was read."""
        self._latest: Snapshot | None = None
        self._delta: bytes = b""
        self._next_at_s = 0.0

    async def next_update(self, after: int) -> tuple[int, bytes]:
        """Waits for a snapshot with a higher number than `after`. Its number, and JSON for a page that has number
        `after`: what changed, or all of it if the page missed a snapshot."""
        async with self._lock:
            is_old = anyio.current_time() > self._next_at_s + EVERY_S
            if self._latest is None or self._latest.number <= after or is_old:
                await self._wait()
                await self._refresh()
            latest = self._latest
            assert latest is not None
            if after == latest.number - 1 and self._delta:
                return latest.number, self._delta
            update = snapshot.full_update(latest, self._rates.history(), RECENT_EVENTS.after(0))
            return latest.number, self._encode(update)

    async def _wait(self) -> None:
        """Waits until the next snapshot is due or the server ends."""
        with anyio.move_on_after(max(0.0, self._next_at_s - anyio.current_time())):
            await self._context.closing.wait()
        self._next_at_s = anyio.current_time() + EVERY_S

    async def _refresh(self) -> None:
        before = self._latest
        at_ms = now_ms()
        try:
            with anyio.fail_after(SNAPSHOT_TIMEOUT_S):
                latest = await self._take_snapshot(at_ms)
        except (*RETRIABLE_ERRORS, redis.exceptions.RedisError, errors.RtaError) as error:
            latest = self._stale_snapshot(at_ms, str(error) or "Redis does not answer")
        self._latest = latest
        if before is None:
            self._delta = b""
        else:
            self._delta = self._encode(snapshot.delta_update(before, latest, RECENT_EVENTS.after(before.last_event)))

    async def _take_snapshot(self, at_ms: int) -> Snapshot:
        # Read first: a session that opens in between shows in the next snapshot, however soon it ends.
        last_opened = await self._context.link.do("GET", keys.LAST_STREAM_SESSION_ID) or b""
        heard_ms = await self._queries.identities()
        newest = list(heard_ms)[:SESSIONS_MAX]
        live = await self._queries.sessions_of(newest, heard_ms)
        sessions = [*live, *await self._ended_sessions(live, last_opened)]
        rates = self._rates.update(sessions, at_ms)
        streams = sum_by_source(await self._queries.streams(live))
        readiness = self._context.health.readiness()
        summary = DeploymentSummary(
            node=self._context.node_id,
            version=__version__,
            problem="" if readiness.is_ready else readiness.reason,
            server=await self._queries.server(),
            total_sessions=len(heard_ms),
            streams=tuple(streams[:STREAMS_MAX]),
            total_streams=len(streams),
            nodes=tuple(await self._queries.nodes()),
            lanes=tuple(await self._queries.control_streams()),
            dead_letters=await self._dead_letters.count(),
            letters=tuple(await self._dead_letter_rows()),
            webhooks=await self._waiting_deliveries(),
        )
        names = await self._identifiers.read(sessions)
        rows = {
            session.identity: snapshot.session_row(session, rates[session.identity], names.get(session.identity, ""))
            for session in sessions
        }
        return Snapshot(self._next_number(), at_ms, rows, summary, self._last_event())

    async def _ended_sessions(self, live: list[SessionSummary], last_opened: bytes) -> list[SessionSummary]:
        """Closed sessions that are not in the index any more: those of the snapshot before, and, whenever a session was
        opened, the latest ones of the catalogue."""
        live_identities = {session.identity for session in live}
        candidates = [] if self._latest is None else list(self._latest.sessions)
        if last_opened != self._last_opened:
            candidates += await self._latest_in_catalogue()
            self._last_opened = last_opened
        unknown = [
            identity
            for identity in dict.fromkeys(candidates)
            if identity not in live_identities and identity not in self._ended
        ]
        for session in await self._queries.sessions_of(unknown, {}):
            if session.state.is_closed:
                self._ended[session.identity] = session
        for identity in live_identities:
            self._ended.pop(identity, None)
        while len(self._ended) > ENDED_SESSIONS_MAX:
            del self._ended[min(self._ended.values(), key=lambda session: session.stream_session_id).identity]
        return list(self._ended.values())

    async def _latest_in_catalogue(self) -> list[str]:
        try:
            return await self._context.catalogue.latest(ENDED_SESSIONS_MAX)
        except errors.CatalogueUnavailable:
            # The catalogue writer logs it.
            return []

    async def _dead_letter_rows(self) -> list[DeadLetterRow]:
        return [_dead_letter_row(letter) for letter in await self._dead_letters.newest(DEAD_LETTERS_MAX)]

    async def _waiting_deliveries(self) -> dict[str, int]:
        """How many webhook deliveries wait, by target."""
        targets = sorted(self._context.config.webhooks.to)
        hook_due = self._context.config.keys.hook_due
        counts = await self._context.link.do_all([("ZCARD", hook_due(target)) for target in targets])
        return dict(zip(targets, counts, strict=True))

    def _stale_snapshot(self, at_ms: int, problem: str) -> Snapshot:
        """The snapshot before, with the reason why there is none of now."""
        if self._latest is None:
            summary = DeploymentSummary(self._context.node_id, __version__, problem)
            return Snapshot(self._next_number(), at_ms, {}, summary, self._last_event())
        summary = msgspec.structs.replace(self._latest.summary, problem=problem)
        return Snapshot(self._next_number(), at_ms, self._latest.sessions, summary, self._last_event())

    def _next_number(self) -> int:
        return 1 if self._latest is None else self._latest.number + 1

    @staticmethod
    def _last_event() -> int:
        events = RECENT_EVENTS.after(0)
        return events[-1].number if events else 0

    @staticmethod
    def _encode(update: dict[str, Any]) -> bytes:
        return msgspec.json.encode(update)


def _dead_letter_row(letter: DeadLetter) -> DeadLetterRow:
    return DeadLetterRow(letter.letter, letter.lane, letter.code, quoting.cut(letter.reason, REASON_MAX_CHARS))
