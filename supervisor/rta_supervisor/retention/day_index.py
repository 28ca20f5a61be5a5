"""The index of the days of each source, and which stream a new session of a source goes to.

A session goes to the day that the clock of Redis shows, but never to an earlier day than the newest in the index. That
is decided inside Redis, so that clocks, delayed requests and several supervisors can't change the order of days. A
stream that is named after a day of a source that is divided by days belongs to that source.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from rta_supervisor.diagnostics import log
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.retention import server_functions
from rta_supervisor.settings import settings
from rta_supervisor.transport import scanning
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import PAGE_SIZE, pages
from rta_wire import day_streams, errors, keys


class DayIndex:
    """The indexes of all sources. They are kept in Redis alone."""

    def __init__(self, link: Link, config: settings.Settings, clock: Clock = now_ms) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config
        self._clock = clock
        self._log = log.get()

    async def stream_for(self, source: str) -> str:
        """The stream of a new session of a source."""
        if not self._config.days.is_used:
            return source
        if source not in self._config.days.sources and (day := self._config.days.day_of(source)) is not None:
            raise errors.StreamOfDay(stream=source, source=day.source)
        if not self._config.days.rules_for(source).is_by_day:
            return source
        today = day_streams.Day(day_streams.check_source(source), day_streams.number_at(self._clock()))
        name, begins = await self._link.do(*server_functions.choose_day(self._keys, today))
        stream: str = name.decode()
        if begins:
            self._log.info("day_began", source=source, stream=stream)
        elif stream != today.stream:
            self._log.warning("day_ahead", source=source, stream=stream, today=today.stream)
        return stream

    async def days_by_source(self, sources: Collection[str]) -> dict[str, list[day_streams.Day]]:
        """The days in the index of each source, oldest first."""
        replies = await self._link.do_all([("ZRANGE", self._keys.days(source), 0, -1) for source in sources])
        return {
            source: [
                day for raw in names if (day := day_streams.parse(raw.decode())) is not None and day.source == source
            ]
            for source, names in zip(sources, replies, strict=True)
        }

    async def add_missing(self, missing: Mapping[str, Iterable[day_streams.Day]]) -> None:
        """Keep the index of each of these sources from expiring, and add the days to it."""
        await self._link.do_all(
            [server_functions.keep_days(self._keys, source, days) for source, days in missing.items()]
        )

    async def drop(self, days: Iterable[day_streams.Day]) -> None:
        """Take days out of the index of their source. The newest stays: no earlier day begins after it."""
        await self._link.do_all([server_functions.drop_day(self._keys, day) for day in days])

    async def restore(self, read_streams: Callable[[], Awaitable[Iterable[str]]]) -> None:
        """Fill indexes that Redis lost: with the streams that exist, and the newest day that ever was of each source.

        `read_streams` gives every stream in the catalogue.
        """
        if not self._config.days.is_used:
            return
        present = self._days_among(raw.decode() for raw in await scanning.read_set(self._link, keys.STREAMS))
        try:
            catalogued = self._days_among(await read_streams())
        except errors.CatalogueUnavailable as error:
            # Recovery, which comes next, decides whether that is a reason not to go on.
            self._log.error("days_not_restored", error=str(error))
            catalogued = []
        newest_by_source = {day.source: day for day in catalogued}
        by_source: dict[str, set[day_streams.Day]] = {}
        for day in (*present, *newest_by_source.values()):
            by_source.setdefault(day.source, set()).add(day)
        await self.add_missing(by_source)
        await self.track_streams(present)

    async def track_streams(self, days: Collection[day_streams.Day]) -> None:
        """Have the trimming duty look at the streams of these days, whoever used them."""
        for page in pages(list(days), PAGE_SIZE):
            scores = (argument for day in page for argument in (day.start_ms, day.stream))
            await self._link.do("ZADD", self._keys.streams_used(), "NX", *scores)

    def _days_among(self, streams: Iterable[str]) -> list[day_streams.Day]:
        """The days of divided sources among streams, oldest first."""
        return sorted(day for name in streams if (day := self._config.days.day_of(name)) is not None)
