"""The trimming duty: keeps streams short, and removes those that nobody has used for a long time. Whole days of a
source that is divided by them are removed by their date, which is `days.sweep`'s.

Owns which streams, by how much and when; the removing itself is one function in the stream's slot, so that two
supervisors that sweep at once take no more than one. Touches only streams that a session of ours used.

An open session's entries stay for `min_retention_s`. That time is not read off entry ids, which stand in the future or
the past after a clock jump: each sweep notes the last id of a stream, and what stood there at a sweep long enough ago
has been in Redis long enough.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import day_sweep as days_sweep
from rta_supervisor.retention import functions, seen_ids, session_index
from rta_supervisor.retention.archive_floor import ArchiveFloor, ArchiveFloors
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, paging, replies
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys

READ_MAX_SESSIONS: Final = 1000
UNLIMITED_ENTRIES: Final = 2**53
"""More than any stream has, and a whole number in Lua."""


class TrimResult(msgspec.Struct, frozen=True):
    """What one pass did."""

    trimmed: dict[str, int] = {}
    """Entries removed, by stream."""
    removed: tuple[str, ...] = ()
    """Streams that are gone."""


def _lower(one: str, other: str) -> str:
    return min(one, other, key=entry_ids.parse)


class Trimmer:
    """One pass over all streams now and then."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        clock_s: Callable[[], float] = anyio.current_time,
        days: days_sweep.DaySweep | None = None,
    ) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config
        self._floors = ArchiveFloors(link, config)
        self._clock_s = clock_s
        self._days = days or days_sweep.DaySweep(link, config)
        self._retention: dict[str, seen_ids.SeenIds] = {}
        self._log = log.get(duty="trim")

    async def run(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Sweep every `trim.every_s` until cancelled."""
        await periodic.in_turns(turns, lambda: self._config.trim.every_s, self.sweep, self._link.outage_log)

    async def sweep(self, until_ms: int | None = commands.FOREVER) -> TrimResult:
        """Look at every stream once. Without a lease (None) that is all: an heir has to know how long entries stand."""
        used = await self._link.do("ZRANGE", self._keys.streams_used(), 0, -1, "WITHSCORES")
        last_use_ms = {name.decode(): float(score) for name, score in zip(used[::2], used[1::2], strict=True)}
        # Before the sessions are read: what comes later is of one that may not be among them.
        ends = {name: await self._last_id(name) for name in last_use_ms} if self._config.archive.required else {}
        busy = await self._busy_streams()
        floors = await self._floors.read()
        if busy and until_ms is not None:
            await self._list(busy)
        days = days_sweep.EMPTY_SWEEP
        if until_ms is not None:
            days = await self._days.sweep(last_use_ms, {*busy, *floors}, until_ms)
        for name in days.removed:
            del last_use_ms[name]
        self._retention = {name: self._retention.get(name, seen_ids.SeenIds()) for name in last_use_ms}
        trimmed: dict[str, int] = {}
        removed = [*days.removed]
        for name, used_ms in last_use_ms.items():
            limits = self._config.trim.limits_for(name)
            loop_watch.report_alive()
            try:
                may_go = name not in {*busy, *floors, *days.streams}
                is_idle = may_go and 0 < limits.idle_stream_s * 1000 <= now_ms() - used_ms
                if is_idle and until_ms is not None and await self._remove(name, limits, used_ms, until_ms):
                    removed.append(name)
                elif self._config.trim.enabled and (
                    below := await self._trim_boundary(name, limits, is_busy=name in busy)
                ):
                    if until_ms is None:
                        continue
                    if (floor := floors.get(name)) is not None:
                        count = await self._trim_to_floor(floor, name, limits, below, until_ms)
                    else:
                        count = await self._trim(name, limits, _lower(below, ends.get(name) or below), until_ms)
                    trimmed |= {name: count} if count else {}
            except redis.exceptions.ResponseError as error:
                # One key of a wrong type keeps no other stream from being trimmed.
                self._log.error("stream_not_trimmed", stream=name, error=str(error))
        if until_ms is not None:
            self._floors.forget(floors)
            await self._floors.renew_queue()
        return TrimResult(trimmed, tuple(removed))

    async def _trim_boundary(self, name: str, limits: settings.TrimLimits, *, is_busy: bool) -> str | None:
        """Entries below this id may go. None: no entry may."""
        last_id = await self._last_id(name)
        if last_id is None:
            return None
        retention = self._retention[name]
        retention.note(self._clock_s(), last_id)
        return retention.last_id_at(self._clock_s() - limits.min_retention_s) if is_busy else entry_ids.MAX

    async def _trim(self, name: str, limits: settings.TrimLimits, below: str, until_ms: int) -> int:
        count = 0
        while removed := await self._link.do(*functions.trim(name, limits, below, until_ms=until_ms)):
            count += removed
        if count:
            counters.counts.of_stream(name).trimmed += count
            self._log.debug("stream_trimmed", stream=name, entries=count)
        return count

    async def _trim_to_floor(
        self, floor: ArchiveFloor, name: str, limits: settings.TrimLimits, below: str, until_ms: int
    ) -> int:
        """What the archive does not need any more; and where the stream has become too large, what it does need."""
        count = await self._trim(name, limits, _lower(below, floor.position), until_ms)
        if await self._floors.is_over_limit(name, floor):
            enough = msgspec.structs.replace(
                limits, max_entries=UNLIMITED_ENTRIES, max_bytes=self._config.archive.max_bytes, max_age_s=0
            )
            if cut := await self._trim(name, enough, below, until_ms):
                await self._floors.note_cut(name, floor, cut, await self._floors.first_id(name))
                count += cut
        return count

    async def _remove(self, name: str, limits: settings.TrimLimits, used_ms: float, until_ms: int) -> bool:
        """In an order in which an open in between comes out on top: it adds an entry first and registers it then."""
        if not await self._link.do("FCALL", "rtas_unlist_1", 1, keys.STREAMS, name, until_ms):
            return False
        in_use_ms = await self._remove_keys(name, limits)
        if not in_use_ms:
            await self._link.do(*functions.remove_if_unchanged(self._keys.streams_used(), [(name, used_ms)]))
            if not any([await self._link.do("EXISTS", key) for key in (keys.stream(name), keys.cold_stream(name))]):
                counters.counts.streams_removed += 1
                self._log.info("stream_removed", stream=name)
                return True
        await self._link.do_all(
            [
                ("SADD", keys.STREAMS, name),
                ("ZADD", self._keys.streams_used(), "GT", in_use_ms or now_ms(), name),
            ]
        )
        return False

    async def _remove_keys(self, name: str, limits: settings.TrimLimits) -> int:
        """Live and cold: 0 if both are gone. The index goes last: what it names is looked for again."""
        for key in (keys.stream(name), keys.cold_stream(name)):
            if in_use_ms := await self._link.do(*functions.remove(key, limits)):
                return int(in_use_ms)
        await self._link.do("HDEL", self._keys.cold_index(), name)
        return 0

    async def _list(self, busy: Collection[str]) -> None:
        """A supervisor that was killed while it removed a stream, and lost against an open, may have left it out."""
        listed = await self._link.do("SMISMEMBER", keys.STREAMS, *busy)
        if missing := [name for name, is_listed in zip(busy, listed, strict=True) if not is_listed]:
            await self._link.do("SADD", keys.STREAMS, *missing)

    async def _busy_streams(self) -> Collection[str]:
        """Streams with an open session."""
        busy: set[str] = set()
        for wanted in paging.pages(await session_index.live_identities(self._link, self._keys), READ_MAX_SESSIONS):
            answers: Sequence[Any] = await self._link.do_all(
                [("HGET", self._keys.session_state(identity), keys.STREAM_NAME) for identity in wanted]
            )
            busy.update(raw.decode() for raw in answers if raw is not None)
        return busy

    async def _last_id(self, name: str) -> str | None:
        info = await replies.read_stream_info(self._link, keys.stream(name))
        return None if info is None else replies.last_generated_id(info)
