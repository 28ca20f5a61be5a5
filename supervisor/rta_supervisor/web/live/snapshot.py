"""What the live page shows at one moment, and what changed between two moments. Pure: `feed` reads it from Redis.

Fields of the structs are JSON keys that the page's scripts read.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from rta_supervisor.diagnostics.recent_events import LogEvent
from rta_supervisor.observe.summaries import (
    ControlStreamSummary,
    NodeSummary,
    ServerSummary,
    SessionSummary,
    StreamSummary,
)

RATES_KEPT: Final = 60
"""Rates of a session that are kept for its sparkline: one for each snapshot."""

MAX_PAUSE_S: Final = 10.0
"""Rates start anew after a longer pause between two snapshots."""


class SessionRow(msgspec.Struct, frozen=True, rename="camel"):
    """A row of the table of sessions. Times in ns are text: JavaScript's numbers are not exact enough."""

    identity: str
    identifier: str
    """What people call it, where that is not the identity; else empty."""
    state: str
    stream: str
    opened_ms: int
    heard_ms: int | None
    bursts: int
    samples: int
    stored_bytes: int
    end_ns: str | None
    lost_data: bool
    rate: float
    """Samples a second since the snapshot before."""


class DeadLetterRow(msgspec.Struct, frozen=True, rename="camel"):
    """A line of the list of dead letters."""

    id: str
    source: str
    code: str
    reason: str


class DeploymentSummary(msgspec.Struct, frozen=True, rename="camel"):
    """Everything but sessions and log events: small enough to be sent whole when anything of it changes."""

    node: str
    version: str
    problem: str
    """Why the snapshot may be out of date; empty if it is not."""

    server: ServerSummary | None = None
    total_sessions: int = 0
    streams: tuple[StreamSummary, ...] = ()
    total_streams: int = 0
    nodes: tuple[NodeSummary, ...] = ()
    lanes: tuple[ControlStreamSummary, ...] = ()
    dead_letters: int = 0
    letters: tuple[DeadLetterRow, ...] = ()
    webhooks: dict[str, int] = {}


class Snapshot(msgspec.Struct, frozen=True):
    """What the page shows at one moment."""

    number: int
    at_ms: int
    sessions: Mapping[str, SessionRow]
    """Rows by identity."""
    summary: DeploymentSummary
    last_event: int
    """The number of the newest log event."""


class SampleRates:
    """Samples a second of each session: the latest, and those of the last minute."""

    def __init__(self) -> None:
        self._samples: dict[str, int] = {}
        self._at_ms = 0
        self._history: dict[str, deque[float]] = {}

    def update(self, sessions: Iterable[SessionSummary], at_ms: int) -> dict[str, float]:
        """Rates by identity since the last call; 0 for a session that was not there then. Called for each snapshot."""
        elapsed_s = (at_ms - self._at_ms) / 1000
        if elapsed_s > MAX_PAUSE_S:
            # No page was open: samples of that time give no rate of now.
            self._samples, self._history = {}, {}
        samples = {session.identity: session.samples for session in sessions}
        rates = {
            identity: round(max(0.0, count - self._samples.get(identity, count)) / elapsed_s, 1)
            if elapsed_s > 0
            else 0.0
            for identity, count in samples.items()
        }
        empty: deque[float] = deque()
        self._history = {
            identity: deque([*self._history.get(identity, empty), rate], maxlen=RATES_KEPT)
            for identity, rate in rates.items()
        }
        self._samples, self._at_ms = samples, at_ms
        return rates

    def history(self) -> dict[str, list[float]]:
        """Rates of the last minute by identity, oldest first. Sessions without samples in it are left out."""
        return {identity: list(rates) for identity, rates in self._history.items() if any(rates)}


def session_row(session: SessionSummary, rate: float, identifier: str) -> SessionRow:
    return SessionRow(
        identity=session.identity,
        identifier="" if identifier == session.identity else identifier,
        state=session.state.value,
        stream=session.stream,
        opened_ms=session.opened_ms,
        heard_ms=session.heard_ms,
        bursts=session.bursts,
        samples=session.samples,
        stored_bytes=session.stored_bytes,
        end_ns=None if session.end_ns is None else str(session.end_ns),
        lost_data=session.lost_data,
        rate=rate,
    )


def full_update(snapshot: Snapshot, rates: Mapping[str, list[float]], events: list[LogEvent]) -> dict[str, Any]:
    """A whole snapshot, for a page that has none or missed one."""
    return {
        "number": snapshot.number,
        "atMs": snapshot.at_ms,
        "sessions": list(snapshot.sessions.values()),
        "rates": rates,
        "rest": snapshot.summary,
        "events": events,
    }


def delta_update(before: Snapshot, after: Snapshot, events: list[LogEvent]) -> dict[str, Any]:
    """What changed from one snapshot to the next, for a page that has the first one."""
    update: dict[str, Any] = {"number": after.number, "atMs": after.at_ms}
    if changed := [row for identity, row in after.sessions.items() if before.sessions.get(identity) != row]:
        update["changed"] = changed
    if gone := [identity for identity in before.sessions if identity not in after.sessions]:
        update["gone"] = gone
    if after.summary != before.summary:
        update["rest"] = after.summary
    if events:
        update["events"] = events
    return update
