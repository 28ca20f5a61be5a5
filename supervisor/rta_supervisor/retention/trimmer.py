"""The trimming duty: keeps streams short, and removes those that nobody has used for a long time. Whole days of a
source that is divided by them are removed by their date, which is `days.sweep`'s.

Owns which streams, by how much and when; the removing itself is one function in the stream's slot, so that two
supervisors that sweep at once take no more than one. Touches only streams that a session of ours used.

An open session's entries stay for `min_retention_s`. That time is not read off entry ids, which stand in the future or
the past after a clock jump: each sweep notes the last id of a stream, and what stood there at a sweep long enough ago
has been in Redis long enough.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import leases
from rta_supervisor.nodes.time_sync import now_ms
from rta_supervisor.retention import day_sweep as days_sweep
from rta_supervisor.retention.archive_floor import Floor, Floors
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link, Trouble, pairs
from rta_wire import keys

CALL_MAX_ENTRIES: Final = 1000
"""Removed in one call at most: more would keep Redis from serving others for too long."""

READ_MAX_SESSIONS: Final = 1000
ANY_ENTRIES: Final = 2**53
"""More than any stream has, and a whole number in Lua."""

HIGHEST_ID: Final = commands.HIGHEST_ID


class Swept(msgspec.Struct, frozen=True):
    """What one pass did."""

    trimmed: dict[str, int] = {}
    """Entries removed, by stream."""
    removed: tuple[str, ...] = ()
    """Streams that are gone."""


class Seen(msgspec.Struct, frozen=True):
    """Where a stream ended at a moment."""

    at_s: float
    last_id: str


class Retention:
    """Which entries of a stream have been there for long enough, told by looking now and then."""

    def __init__(self) -> None:
        self._seen: deque[Seen] = deque()

    def note(self, at_s: float, last_id: str) -> None:
        if self._seen and _order(last_id) < _order(self._seen[-1].last_id):
            # Redis lost data or the stream was made anew: what was noted says nothing about these entries.
            self._seen.clear()
        self._seen.append(Seen(at_s, last_id))

    def before(self, at_s: float) -> str | None:
        """Entries below this id stood there at that time. None: nobody looked that early."""
        while len(self._seen) > 1 and self._seen[1].at_s <= at_s:
            self._seen.popleft()
        return self._seen[0].last_id if self._seen and self._seen[0].at_s <= at_s else None


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, sequence = entry_id.partition("-")
    return int(ms), int(sequence)


def _lower(one: str, other: str) -> str:
    return min(one, other, key=_order)


class Trimmer:
    """One pass over all streams now and then."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        clock_s: Callable[[], float] = anyio.current_time,
        days: days_sweep.Sweep | None = None,
    ) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config.trim
        self._archive = config.archive
        self._floors = Floors(link, config)
        self._clock_s = clock_s
        self._days = days or days_sweep.Sweep(link, config)
        self._retention: dict[str, Retention] = {}
        self._log = log.get(duty="trim")

    def reconfigure(self, config: settings.Settings) -> None:
        self._config = config.trim
        self._days.reconfigure(config)
        self._archive = config.archive
        self._floors.reconfigure(config)

    async def run(self, turns: leases.Turns = leases.ALWAYS) -> None:
        """Until cancelled. What an outage interrupts is done in the next pass."""
        while True:
            loop_watch.step(self._config.every_s)
            until_ms = await turns.next(self._config.every_s)
            try:
                await self.sweep(until_ms)
            except Trouble as error:
                self._link.complaints.note(error)

    async def sweep(self, until_ms: int | None = commands.FOREVER) -> Swept:
        """Look at every stream once. Without a lease (None) that is all: an heir has to know how long entries stand."""
        used = await self._link.do("ZRANGE", self._keys.streams_used(), 0, -1, "WITHSCORES")
        last_use_ms = {name.decode(): float(score) for name, score in zip(used[::2], used[1::2], strict=True)}
        # Before the sessions are read: what comes later is of one that may not be among them.
        ends = {name: await self._last_id(name) for name in last_use_ms} if self._archive.required else {}
        busy = await self._busy_streams()
        floors = await self._floors.read()
        if busy and until_ms is not None:
            await self._list(busy)
        days = days_sweep.NOTHING
        if until_ms is not None:
            days = await self._days.sweep(last_use_ms, {*busy, *floors}, until_ms)
        for name in days.removed:
            del last_use_ms[name]
        self._retention = {name: self._retention.get(name, Retention()) for name in last_use_ms}
        trimmed: dict[str, int] = {}
        removed = [*days.removed]
        for name, used_ms in last_use_ms.items():
            limits = self._config.of(name)
            loop_watch.step()
            try:
                may_go = name not in {*busy, *floors, *days.streams}
                is_idle = may_go and 0 < limits.idle_stream_s * 1000 <= now_ms() - used_ms
                if is_idle and until_ms is not None and await self._remove(name, limits, used_ms, until_ms):
                    removed.append(name)
                elif self._config.enabled and (below := await self._below(name, limits, is_busy=name in busy)):
                    if until_ms is None:
                        continue
                    if (floor := floors.get(name)) is not None:
                        count = await self._trim_above(floor, name, limits, below, until_ms)
                    else:
                        count = await self._trim(name, limits, _lower(below, ends.get(name) or below), until_ms)
                    trimmed |= {name: count} if count else {}
            except redis.exceptions.ResponseError as error:
                # One key of a wrong type keeps no other stream from being trimmed.
                self._log.error("stream_not_trimmed", stream=name, error=str(error))
        if until_ms is not None:
            self._floors.forget(floors)
            await self._floors.look_after()
        return Swept(trimmed, tuple(removed))

    async def _below(self, name: str, limits: settings.TrimLimits, *, is_busy: bool) -> str | None:
        """Entries below this id may go. None: no entry may."""
        last_id = await self._last_id(name)
        if last_id is None:
            return None
        retention = self._retention[name]
        retention.note(self._clock_s(), last_id)
        return retention.before(self._clock_s() - limits.min_retention_s) if is_busy else HIGHEST_ID

    async def _trim(self, name: str, limits: settings.TrimLimits, below: str, until_ms: int) -> int:
        count = 0
        while removed := await self._link.do(*trim_call(name, limits, below, until_ms=until_ms)):
            count += removed
        if count:
            counters.counts.stream(name).trimmed += count
            self._log.debug("stream_trimmed", stream=name, entries=count)
        return count

    async def _trim_above(self, floor: Floor, name: str, limits: settings.TrimLimits, below: str, until_ms: int) -> int:
        """What the archive does not need any more; and where the stream has become too large, what it does need."""
        count = await self._trim(name, limits, _lower(below, floor.position), until_ms)
        if await self._floors.is_over(name, floor):
            enough = msgspec.structs.replace(
                limits, max_entries=ANY_ENTRIES, max_bytes=self._archive.max_bytes, max_age_s=0
            )
            if cut := await self._trim(name, enough, below, until_ms):
                await self._floors.note_cut(name, floor, cut, await self._floors.first_id(name))
                count += cut
        return count

    async def _remove(self, name: str, limits: settings.TrimLimits, used_ms: float, until_ms: int) -> bool:
        """In an order in which an open in between comes out on top: it adds an entry first and registers it then."""
        if not await self._link.do("FCALL", "rtas_unlist_1", 1, keys.STREAMS, name, until_ms):
            return False
        in_use_ms = await self._removed(name, limits)
        if not in_use_ms:
            await self._link.do(*commands.forget(self._keys.streams_used(), [(name, used_ms)]))
            if not any([await self._link.do("EXISTS", key) for key in (keys.stream(name), keys.cold(name))]):
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

    async def _removed(self, name: str, limits: settings.TrimLimits) -> int:
        """Live and cold: 0 if both are gone. The index goes last: what it names is looked for again."""
        for key in (keys.stream(name), keys.cold(name)):
            if in_use_ms := await self._link.do(*remove_call(key, limits)):
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
        identities = [raw.decode() for raw in await self._link.do("ZRANGE", self._keys.index(), 0, -1)]
        busy: set[str] = set()
        for at in range(0, len(identities), READ_MAX_SESSIONS):
            wanted = identities[at : at + READ_MAX_SESSIONS]
            answers: Sequence[Any] = await self._link.do_all(
                [("HGET", self._keys.state(identity), keys.STREAM_NAME) for identity in wanted]
            )
            busy.update(raw.decode() for raw in answers if raw is not None)
        return busy

    async def _last_id(self, name: str) -> str | None:
        try:
            info = pairs(await self._link.do("XINFO", "STREAM", keys.stream(name)))
        except redis.exceptions.ResponseError as error:
            if "no such key" in str(error):
                return None
            raise
        return info[b"last-generated-id"].decode()


def trim_call(name: str, limits: settings.TrimLimits, below: str, *, until_ms: int = commands.FOREVER) -> commands.Call:
    """Gives how many entries it removed; 0 means that there is nothing more to do."""
    bounds = (limits.max_entries, limits.max_bytes, int(limits.max_age_s * 1000))
    way = (below, CALL_MAX_ENTRIES, int(limits.exact), until_ms)
    return ("FCALL", "rtas_trim_1", 1, keys.stream(name), *bounds, *way)


def remove_call(key: str, limits: settings.TrimLimits) -> commands.Call:
    """Gives 0 if the stream is gone, else the time of its last entry in ms."""
    return ("FCALL", "rtas_remove_1", 1, key, int(limits.idle_stream_s * 1000))
