"""What the live page shows at one moment, and what changed since another. Pure: is told, looks at nothing."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from rta_supervisor.diagnostics.recent_events import LogEvent
from rta_supervisor.observe.queries import (
    ControlStreamSummary,
    NodeSummary,
    ServerSummary,
    SessionSummary,
    StreamSummary,
)

HISTORY: Final = 60
"""Rates that a sparkline has, one for each look."""


PAUSE_S: Final = 10.0


class SessionRow(msgspec.Struct, frozen=True, rename="camel"):
    """One row. Times in ns are text: they are more than a browser can count."""

    identity: str
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
    """Samples a second since the look before."""


class DeadLetterRow(msgspec.Struct, frozen=True, rename="camel"):
    """One dead letter."""

    id: str
    source: str
    code: str
    reason: str


class DeploymentSummary(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that is small enough to be sent whole when it changes."""

    node: str
    version: str
    problem: str
    """Why what is shown may be old; empty while all is well."""

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
    """One look."""

    number: int
    at_ms: int
    sessions: Mapping[str, SessionRow]
    summary: DeploymentSummary
    last_event: int


class Rates:
    """Samples a second of each session, now and for the last minute."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}
        self._before_ms = 0
        self._history: dict[str, deque[float]] = {}

    def update(self, lines: Iterable[SessionSummary], at_ms: int) -> dict[str, float]:
        """Told of every look in turn. A session that is new has no rate yet."""
        seconds = (at_ms - self._before_ms) / 1000
        if seconds > PAUSE_S:
            # Nobody watched: what was counted then is no rate of now.
            self._before, self._history = {}, {}
        kept = {line.identity: line.samples for line in lines}
        rates = {
            one: round(max(0.0, samples - self._before.get(one, samples)) / seconds, 1) if seconds > 0 else 0.0
            for one, samples in kept.items()
        }
        empty: deque[float] = deque()
        self._history = {
            one: deque([*self._history.get(one, empty), rate], maxlen=HISTORY) for one, rate in rates.items()
        }
        self._before, self._before_ms = kept, at_ms
        return rates

    def history(self) -> dict[str, list[float]]:
        """Of those that had any."""
        return {one: list(rates) for one, rates in self._history.items() if any(rates)}


def row(line: SessionSummary, rate: float) -> SessionRow:
    return SessionRow(
        identity=line.identity,
        state=line.state.value,
        stream=line.stream,
        opened_ms=line.opened_ms,
        heard_ms=line.heard_ms,
        bursts=line.bursts,
        samples=line.samples,
        stored_bytes=line.stored_bytes,
        end_ns=None if line.end_ns is None else str(line.end_ns),
        lost_data=line.lost_data,
        rate=rate,
    )


def full_update(now: Snapshot, rates: Mapping[str, list[float]], events: list[LogEvent]) -> dict[str, Any]:
    """For a page that knows nothing yet."""
    return {
        "number": now.number,
        "atMs": now.at_ms,
        "sessions": list(now.sessions.values()),
        "rates": rates,
        "rest": now.summary,
        "events": events,
    }


def delta_update(before: Snapshot, now: Snapshot, events: list[LogEvent]) -> dict[str, Any]:
    """For a page that has seen `before`."""
    found: dict[str, Any] = {"number": now.number, "atMs": now.at_ms}
    if changed := [one for name, one in now.sessions.items() if before.sessions.get(name) != one]:
        found["changed"] = changed
    if gone := [name for name in before.sessions if name not in now.sessions]:
        found["gone"] = gone
    if now.summary != before.summary:
        found["rest"] = now.summary
    if events:
        found["events"] = events
    return found
