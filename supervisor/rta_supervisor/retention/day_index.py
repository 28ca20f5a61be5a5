"""The index of days of each source, and which stream a new session of a source goes to.

The day is that of the clock of Redis, but never an earlier one than the newest in the index: that is decided inside
Redis, so clocks, stragglers and several supervisors can't reorder. A stream that is called after a day of a source that
is divided by days belongs to that source.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final

from rta_supervisor.diagnostics import log
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, errors, keys

INDEX_TTL_S: Final = 30 * day_streams.DAY_S
"""How long it is known which day of a source was its last, after there is nothing of the source any more."""


class DayIndex:
    """All sources. Holds nothing: what Redis says counts."""

    def __init__(self, link: Link, config: settings.Settings, clock: Clock = now_ms) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config
        self._clock = clock
        self._log = log.get()

    async def stream_for(self, source: str) -> str:
        """The stream of a new session of a source."""
        if source not in self._config.days.sources and (day := self._config.days.day_of(source)) is not None:
            raise errors.StreamOfDay(stream=source, source=day.source)
        if not self._config.days.rules_for(source).is_by_day:
            return source
        today = day_streams.Day(day_streams.check_source(source), day_streams.number_at(self._clock()))
        name, begins = await self._link.do(*choose_call(self._keys, today))
        stream: str = name.decode()
        if begins:
            self._log.info("day_began", source=source, stream=stream)
        elif stream != today.stream:
            self._log.warning("day_ahead", source=source, stream=stream, today=today.stream)
        return stream

    async def days_by_source(self, sources: Collection[str]) -> dict[str, list[day_streams.Day]]:
        """What the index of each source holds, oldest first."""
        answers = await self._link.do_all([("ZRANGE", self._keys.days(source), 0, -1) for source in sources])
        return {
            source: [
                day for raw in names if (day := day_streams.parse(raw.decode())) is not None and day.source == source
            ]
            for source, names in zip(sources, answers, strict=True)
        }

    async def add_missing(self, missing: Mapping[str, Iterable[day_streams.Day]]) -> None:
        """Keep the index of these sources from expiring, and put in what it misses."""
        await self._link.do_all([keep_call(self._keys, source, some) for source, some in missing.items()])

    async def drop(self, some: Iterable[day_streams.Day]) -> None:
        """Take days out of the index of their source. The newest stays, to be remembered."""
        await self._link.do_all([drop_call(self._keys, day) for day in some])

    async def restore(self, read_streams: Callable[[], Awaitable[Iterable[str]]]) -> None:
        """Put in what an index that Redis lost should hold: the streams that are there, and the newest day that ever
        was. `read_streams`: every stream that the catalogue knows."""
        if not self._config.days.is_used:
            return
        present = self._days_among(raw.decode() for raw in await self._link.do("SMEMBERS", keys.STREAMS))
        try:
            ever = self._days_among(await read_streams())
        except errors.CatalogueUnavailable as error:
            # Recovery, which comes next, decides whether that is a reason not to go on.
            self._log.error("days_not_restored", error=str(error))
            ever = []
        by_source: dict[str, set[day_streams.Day]] = {}
        for day in (*present, *{day.source: day for day in ever}.values()):
            by_source.setdefault(day.source, set()).add(day)
        await self.add_missing(by_source)
        await self.track_streams(present)

    async def track_streams(self, some: Collection[day_streams.Day]) -> None:
        """See that streams are looked after, whoever used them."""
        if some:
            scores = (word for day in some for word in (day.start_ms, day.stream))
            await self._link.do("ZADD", self._keys.streams_used(), "NX", *scores)

    def _days_among(self, streams: Iterable[str]) -> list[day_streams.Day]:
        """Days among streams, oldest first."""
        return sorted(day for name in streams if (day := self._config.days.day_of(name)) is not None)


def choose_call(names: keys.Keys, today: day_streams.Day) -> commands.Command:
    """Gives the stream, and whether its day begins with that."""
    return ("FCALL", "rtas_day_choose_1", 1, names.days(today.source), today.number, today.stream, INDEX_TTL_S)


def keep_call(names: keys.Keys, source: str, some: Iterable[day_streams.Day]) -> commands.Command:
    words = (word for day in some for word in (day.number, day.stream))
    return ("FCALL", "rtas_day_keep_1", 1, names.days(source), INDEX_TTL_S, *words)


def drop_call(names: keys.Keys, day: day_streams.Day) -> commands.Command:
    return ("FCALL", "rtas_day_drop_1", 1, names.days(day.source), day.stream)
