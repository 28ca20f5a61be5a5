"""Reads figures about the deployment from Redis at intervals, and keeps the latest for metrics and the status line:
asking for those costs Redis nothing.
"""

import heapq
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import redis.exceptions

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries, server_functions, stream_memory, summaries
from rta_supervisor.retention import session_index
from rta_supervisor.session.opening.open_sessions import OpenSessions
from rta_supervisor.settings import settings
from rta_supervisor.transport import paging, scanning
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys
from rta_wire.session import State

STREAMS_MAX: Final = 100
"""Streams that are observed one by one: so many of the largest by memory, and so many of the longest."""


class StreamObservation(msgspec.Struct, frozen=True):
    """Size and age of one stream of data."""

    name: str
    entries: int
    memory_bytes: int
    """Of the live part."""
    age_s: float
    """Age of its oldest live entry."""
    cold_bytes: int = 0
    """Memory of the cold part."""


class Observation(msgspec.Struct, frozen=True):
    """Figures about the deployment at one moment. `at_ms` is 0 before the first one."""

    at_ms: int = 0
    sessions: dict[str, int] = {}
    """Live sessions by state."""
    streams: tuple[StreamObservation, ...] = ()
    stream_count: int = 0
    live_bytes: int = 0
    cold_bytes: int = 0
    """Memory of all streams, live and cold."""
    control_streams: tuple[summaries.ControlStreamSummary, ...] = ()
    nodes: int = 0
    dead_letters: int = 0
    unarchived: int = 0
    """Closed sessions that wait for the archive."""
    server: summaries.ServerSummary | None = None


class Sampler:
    """Makes an observation every `metrics.survey_s`, and keeps the latest."""

    def __init__(self, link: Link, config: settings.Settings, open_sessions: OpenSessions | None = None) -> None:
        self._link = link
        self._config = config
        self._open_sessions = open_sessions or OpenSessions(config)
        self._queries = queries.RedisQueries(link, config)
        self._log = log.get(duty="survey")
        self.latest = Observation()

    async def run(self) -> None:
        """Observe until cancelled."""
        await periodic.every(
            lambda: self._config.metrics.survey_s, self._observe_or_log, self._link.outage_log, at_once=True
        )

    async def _observe_or_log(self) -> None:
        try:
            await self.observe()
        except redis.exceptions.ResponseError as error:
            # A key of a wrong type spoils an observation, not the daemon.
            self._log.error("survey_failed", error=str(error))

    async def observe(self) -> Observation:
        """Make an observation, which is the latest from now on."""
        names = [raw.decode() for raw in await scanning.read_sorted_set(self._link, self._config.keys.streams_used())]
        counters.counts.merge_gone_streams(names)
        live, cold = await self._read_memory(names)
        self.latest = Observation(
            at_ms=now_ms(),
            sessions=await self._count_by_state(),
            streams=await self._observe_streams(names, live, cold),
            stream_count=len(names),
            live_bytes=sum(live.values()),
            cold_bytes=sum(cold.values()),
            control_streams=tuple(await self._queries.control_streams()),
            nodes=await self._link.do("ZCARD", self._config.keys.nodes()),
            dead_letters=await self._queries.dead_letter_count(),
            unarchived=await self._link.do("ZCARD", self._config.keys.unarchived()),
            server=await self._queries.server(),
        )
        return self.latest

    async def _count_by_state(self) -> dict[str, int]:
        """Live sessions by state; the open ones are counted by principal too. Reads states and principals alone, which
        is less than their summaries need."""
        names = self._config.keys
        identities = await session_index.live_identities(self._link, names)
        counts = dict.fromkeys((state.value for state in (State.WAITING, State.OPEN)), 0)
        principals: dict[str, str] = {}
        for page in paging.pages(identities, paging.PAGE_SIZE):
            rows = await self._link.do_all(
                [("HMGET", names.session_state(identity), keys.STATE, keys.PRINCIPAL) for identity in page]
            )
            for identity, (state, principal) in zip(page, rows, strict=True):
                if state is not None:
                    counts[state.decode()] = counts.get(state.decode(), 0) + 1
                    if principal is not None and not State(state.decode()).is_closed:
                        # One text for all sessions of a principal.
                        principals[identity] = sys.intern(principal.decode())
        self._open_sessions.take_over_count(principals)
        return counts

    async def _read_memory(self, names: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
        """The memory of the live and of the cold part of each stream that has one."""
        index = await scanning.read_hash(self._link, self._config.keys.cold_index())
        cold_names = [raw.decode() for raw in index]
        sizes = await stream_memory.read(self._link, [*map(keys.stream, names), *map(keys.cold_stream, cold_names)])
        return (
            {name: size for name in names if (size := sizes.get(keys.stream(name))) is not None},
            {name: size for name in cold_names if (size := sizes.get(keys.cold_stream(name))) is not None},
        )

    async def _observe_streams(
        self, names: Sequence[str], live: Mapping[str, int], cold: Mapping[str, int]
    ) -> tuple[StreamObservation, ...]:
        """The streams that take the most memory, and the longest ones."""
        replies = await paging.map_pages(names, self._read_lengths)
        lengths = {name: reply for name, reply in zip(names, replies, strict=True) if isinstance(reply, int)}
        sizes = {name: live.get(name, 0) + cold.get(name, 0) for name in lengths}
        largest = heapq.nlargest(STREAMS_MAX, sizes, key=lambda name: (sizes[name], name))
        longest = heapq.nlargest(STREAMS_MAX, lengths, key=lambda name: (lengths[name], name))
        observed = list(dict.fromkeys([*largest, *longest]))
        first_ids = await self._link.try_all([server_functions.first_id(name) for name in observed])
        at_ms = now_ms()
        return tuple(
            StreamObservation(name, lengths[name], live.get(name, 0), _age_s(first_id, at_ms), cold.get(name, 0))
            for name, first_id in zip(observed, first_ids, strict=True)
            if not isinstance(first_id, Exception)
        )

    async def _read_lengths(self, names: Sequence[str]) -> list[Any]:
        return await self._link.try_all([("XLEN", keys.stream(name)) for name in names])


def _age_s(first_id: Any, at_ms: int) -> float:
    return 0.0 if first_id is None else max(at_ms - entry_ids.ms_of(first_id.decode()), 0) / 1000
