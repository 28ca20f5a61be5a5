"""Summaries of what Redis holds at one moment: a session, a stream, a control stream, a supervisor, the server. Pure:
`queries` reads them.

Fields are named as `--json` prints them, with their units.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from rta_supervisor.nodes.server_clock import now_ms
from rta_wire import entry_ids
from rta_wire.session import State


class SessionSummary(msgspec.Struct, frozen=True):
    """State and totals of one session."""

    identity: str
    state: State
    stream: str
    stream_session_id: int
    principal: str
    opened_ms: int
    heard_ms: int | None
    """When its writer last sent a report or a request; None if it is not in the index of live sessions any more."""
    bursts: int
    samples: int
    raw_bytes: int
    stored_bytes: int
    start_ns: int | None
    end_ns: int | None
    lost_data: bool
    spoilt: str = ""
    """What of the session can't be read or written; empty where everything can."""
    version: int = 0
    """Raised by one with every change of state or JSON."""


class StreamSummary(msgspec.Struct, frozen=True):
    """Size and age of one stream of data, live and cold."""

    stream: str
    source: str
    day: str | None
    """The day of a day stream, as YYYY-MM-DD."""
    entries: int
    entries_added: int
    memory_bytes: int | None
    first_ms: int | None
    last_ms: int | None
    open_sessions: int
    max_entries: int
    cold_entries: int = 0
    cold_bytes: int = 0
    """Memory of the cold part, which comes before the live one."""

    @property
    def total_bytes(self) -> int:
        """Memory of the live and the cold part."""
        return (self.memory_bytes or 0) + self.cold_bytes

    @property
    def removed(self) -> int:
        """Entries that were trimmed: neither live nor cold."""
        return max(self.entries_added - self.entries - self.cold_entries, 0)


def sum_by_source(streams: Iterable[StreamSummary]) -> list[StreamSummary]:
    """One summary for each source: of all its days, and of the stream of its own name. The largest comes first."""
    groups: dict[str, list[StreamSummary]] = {}
    for stream in streams:
        groups.setdefault(stream.source, []).append(stream)
    sums = [group[0] if len(group) == 1 else _sum(source, group) for source, group in groups.items()]
    return sorted(sums, key=lambda stream: (-stream.total_bytes, stream.stream))


def _sum(source: str, streams: Sequence[StreamSummary]) -> StreamSummary:
    sizes = [stream.memory_bytes for stream in streams if stream.memory_bytes is not None]
    return StreamSummary(
        stream=source,
        source=source,
        day=None,
        memory_bytes=sum(sizes) if sizes else None,
        first_ms=min((stream.first_ms for stream in streams if stream.first_ms is not None), default=None),
        last_ms=max((stream.last_ms for stream in streams if stream.last_ms is not None), default=None),
        **{name: sum(getattr(stream, name) for stream in streams) for name in _SUMMED_FIELDS},
    )


_SUMMED_FIELDS: Final = ("entries", "entries_added", "open_sessions", "max_entries", "cold_entries", "cold_bytes")


class ControlStreamSummary(msgspec.Struct, frozen=True):
    """Messages in one control stream."""

    key: str
    principal: str
    lane: str
    """The kind of control stream: `requests` or `reports`."""
    waiting: int
    """Messages that no supervisor has read yet."""
    unacknowledged: int
    oldest_ms: int | None
    """When its first message was sent, but never later than now: clients can choose entry ids from the future."""
    evicted: int
    is_read: bool
    """Whether it has the consumer group of the supervisors."""
    last_id: str = entry_ids.MIN
    """The highest entry id that it ever had."""

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing can be appended any more: there is no higher id."""
        return self.last_id == entry_ids.MAX


class NodeSummary(msgspec.Struct, frozen=True):
    """One running supervisor."""

    node: str
    host: str
    pid: int
    version: str
    seen_ms: int
    """When it last renewed its registration."""
    unacknowledged: int


class ServerSummary(msgspec.Struct, frozen=True):
    """Version, role and memory of the Redis server."""

    product: str
    version: str
    role: str
    policy: str
    """Its maxmemory-policy."""
    used_bytes: int
    max_bytes: int
    uptime_s: int
    clock_ahead_ms: int
    """By how much its clock is ahead of the clock of this host."""


def count_by_state(sessions: Iterable[SessionSummary]) -> dict[str, int]:
    """The number of sessions in each state: open and waiting ones first, and also if there are none."""
    counts = {State.OPEN.value: 0, State.WAITING.value: 0}
    for session in sessions:
        counts[session.state.value] = counts.get(session.state.value, 0) + 1
    return counts


def oldest_stream(control_streams: Iterable[ControlStreamSummary]) -> ControlStreamSummary | None:
    """The control stream with the oldest message; None if there is no message."""
    streams = [stream for stream in control_streams if stream.oldest_ms is not None]
    return min(streams, key=lambda stream: stream.oldest_ms or 0, default=None)


def oldest_age_s(control_streams: Iterable[ControlStreamSummary], at_ms: int | None = None) -> float:
    """How long the oldest message of any control stream has been there; 0 if there is none. `at_ms`: None is now."""
    stream = oldest_stream(control_streams)
    if stream is None or stream.oldest_ms is None:
        return 0.0
    return max(0, (now_ms() if at_ms is None else at_ms) - stream.oldest_ms) / 1000
