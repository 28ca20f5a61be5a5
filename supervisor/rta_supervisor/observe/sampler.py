"""Looks at Redis now and then for those who watch the supervisor: how much waits, how much there is, how full it is.

Asking for metrics costs Redis nothing: what is shown was seen at the last look.
"""

from typing import Any, Final

import msgspec
import redis.exceptions

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.observe import queries
from rta_supervisor.retention import session_index
from rta_supervisor.settings import settings
from rta_supervisor.transport import paging
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys
from rta_wire.session import State

STREAMS_MAX: Final = 100
"""Streams that are looked at closely: the longest."""


class StreamObservation(msgspec.Struct, frozen=True):
    """A stream of data."""

    name: str
    entries: int
    memory_bytes: int
    age_s: float
    """Of its oldest entry."""


class Observation(msgspec.Struct, frozen=True):
    """What there was at one look."""

    at_ms: int = 0
    sessions: dict[str, int] = {}
    streams: tuple[StreamObservation, ...] = ()
    stream_count: int = 0
    lanes: tuple[queries.ControlStreamSummary, ...] = ()
    nodes: int = 0
    dead_letters: int = 0
    unarchived: int = 0
    server: queries.ServerSummary | None = None


class Sampler:
    """Looks until cancelled; the last look counts."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config
        self._overview = queries.RedisQueries(link, config)
        self._log = log.get(duty="survey")
        self.latest = Observation()

    async def run(self) -> None:
        """Observe every `metrics.survey_s` until cancelled."""
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
        streams, stream_count = await self._streams()
        self.latest = Observation(
            at_ms=now_ms(),
            sessions=await self._states(),
            streams=streams,
            stream_count=stream_count,
            lanes=tuple(await self._overview.control_streams()),
            nodes=await self._link.do("ZCARD", self._config.keys.nodes()),
            dead_letters=await self._overview.dead_letter_count(),
            unarchived=await self._link.do("ZCARD", self._config.keys.unarchived()),
            server=await self._overview.server(),
        )
        return self.latest

    async def _states(self) -> dict[str, int]:
        """Live sessions by state. Less is read of each than a list of them needs."""
        names = self._config.keys
        identities = await session_index.live_identities(self._link, names)
        found = dict.fromkeys((state.value for state in (State.WAITING, State.OPEN)), 0)
        for part in paging.pages(identities, queries.SLICE):
            for raw in await self._link.do_all([("HGET", names.session_state(one), keys.STATE) for one in part]):
                if raw is not None:
                    found[raw.decode()] = found.get(raw.decode(), 0) + 1
        return found

    async def _streams(self) -> tuple[tuple[StreamObservation, ...], int]:
        names = [raw.decode() for raw in await self._link.do("ZRANGE", self._config.keys.streams_used(), 0, -1)]
        counters.counts.merge_gone_streams(names)
        lengths = await self._link.try_all([("XLEN", keys.stream(name)) for name in names])
        longest = sorted(
            ((length, name) for name, length in zip(names, lengths, strict=True) if isinstance(length, int)),
            reverse=True,
        )[:STREAMS_MAX]
        answers = await self._link.try_all(
            [
                call
                for _, name in longest
                for call in (
                    ("FCALL", "rtas_first_id_1", 1, keys.stream(name)),
                    ("MEMORY", "USAGE", keys.stream(name)),
                )
            ]
        )
        at_ms = now_ms()
        found = zip(longest, answers[::2], answers[1::2], strict=True)
        return tuple(
            StreamObservation(name, length, memory, _age_s(first, at_ms))
            for (length, name), first, memory in found
            if isinstance(memory, int) and not isinstance(first, Exception)
        ), len(names)


def _age_s(first_id: Any, at_ms: int) -> float:
    return 0.0 if first_id is None else max(at_ms - entry_ids.ms_of(first_id.decode()), 0) / 1000
