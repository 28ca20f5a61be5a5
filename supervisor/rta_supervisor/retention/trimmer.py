"""The trimming duty: keeps streams short, and removes streams that are idle and days of sources that are old.

Decides which streams are trimmed and when. The removing itself is a server function, so that two supervisors that sweep
at once remove no more than one would. Touches only streams that a session of ours used, and those of other producers
where `[other_producers]` says so.

The entries of an open session stay for `min_retention_s`. That time is not taken from entry ids, which are in the
future or the past after a clock jump: each sweep notes the last id of a stream, and what was there at a sweep long
enough ago has been in Redis long enough.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import (
    archive_floor,
    archive_floor_store,
    day_sweep,
    other_producers,
    server_functions,
    session_index,
    trim_snapshot,
)
from rta_supervisor.retention.archive_floor import ArchiveFloor
from rta_supervisor.retention.archive_floor_store import ArchiveFloorStore
from rta_supervisor.retention.seen_ids import SeenIds
from rta_supervisor.retention.stream_removal import StreamRemover
from rta_supervisor.retention.trim_requests import rules
from rta_supervisor.retention.trim_requests.rules import Protection
from rta_supervisor.retention.trim_snapshot import SmallEntries, TrimSnapshot
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, oversized_entries, paging, replies, scanning
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys

READ_MAX_SESSIONS: Final = 1000

NODE_ENTRIES: Final = 100
"""Entries that a node of a stream has at most, unless stream-node-max-entries of Redis says otherwise."""


class TrimResult(msgspec.Struct, frozen=True):
    """What one sweep did."""

    trimmed: dict[str, int] = {}
    """Entries removed, by stream."""
    removed: tuple[str, ...] = ()
    """Streams that are gone."""


class Trimmer:
    """Sweeps over all streams that sessions used."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        clock_s: Callable[[], float] = anyio.current_time,
        days: day_sweep.DaySweep | None = None,
    ) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config
        self._floors = ArchiveFloorStore(link, config)
        self._clock_s = clock_s
        self._days = days or day_sweep.DaySweep(link, config)
        self._remover = StreamRemover(link, config.keys)
        self._seen_ids: dict[str, SeenIds] = {}
        self._log = log.get(duty="trim")

    async def run(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Sweep every `trim.every_s` until cancelled."""
        await periodic.in_turns(turns, lambda: self._config.trim.every_s, self.sweep, self._link.outage_log)

    async def sweep(self, until_ms: int | None = commands.FOREVER) -> TrimResult:
        """Look at every stream once; trim and remove what may go.

        `until_ms` None: another supervisor has the lease. Nothing is changed then, but last ids are noted all the same:
        after a takeover this supervisor has to know how long entries have been there.
        """
        snapshot = await self._read_snapshot()
        days = day_sweep.EMPTY_SWEEP
        if until_ms is not None:
            await self._list_missing(snapshot.busy)
            days = await self._days.sweep(snapshot.last_use_ms, snapshot.in_use, until_ms)
        others = await self._other_streams()
        # Whether they have open sessions is not known here: what came lately stays, and none is removed.
        snapshot = msgspec.structs.replace(snapshot, busy=frozenset([*snapshot.busy, *others]))
        streams = [*(stream for stream in snapshot.last_use_ms if stream not in days.removed), *others]
        self._seen_ids = {stream: self._seen_ids.get(stream, SeenIds()) for stream in streams}
        trimmed: dict[str, int] = {}
        removed = [*days.removed]
        for stream in streams:
            loop_watch.report_alive()
            try:
                if stream not in days.streams and await self._remove_if_idle(stream, snapshot, until_ms):
                    removed.append(stream)
                elif count := await self._trim_stream(stream, snapshot, until_ms):
                    trimmed[stream] = count
            except redis.exceptions.ResponseError as error:
                # One key of a wrong type keeps no other stream from being trimmed.
                self._log.error("stream_not_trimmed", stream=stream, error=str(error))
        if until_ms is not None:
            self._floors.forget_all_but(snapshot.floors)
            await self._floors.renew_unarchived()
        return TrimResult(trimmed, tuple(removed))

    async def protection(self, stream: str) -> Protection:
        """What of a stream no request removes. A supervisor that has not looked at a stream for `min_retention_s` can't
        tell how long the entries of its open sessions have been there: none of them goes then."""
        # Before the sessions are read: what is added later may be of a session that is not among them.
        last_id = await self._last_id(stream)
        retention = last_id or entry_ids.MAX
        if stream in await self._busy_streams():
            min_retention_s = self._config.trim.limits_for(stream).min_retention_s
            seen_ids = self._seen_ids.get(stream, SeenIds())
            retention = seen_ids.last_id_at(self._clock_s() - min_retention_s) or entry_ids.MIN
        floor = (await self._floors.read()).get(stream)
        return Protection(entry_ids.MAX if floor is None else floor.position, retention)

    async def _read_snapshot(self) -> TrimSnapshot:
        used = await scanning.read_sorted_set(self._link, self._keys.streams_used())
        last_use_ms = {name.decode(): float(score) for name, score in used.items()}
        # Before the sessions are read: what is added later may be of a session that is not among them.
        last_ids = (
            {stream: await self._last_id(stream) for stream in last_use_ms} if self._config.archive.required else {}
        )
        busy = await self._busy_streams()
        infos = map(replies.parse_info, await self._link.do_on_primaries("INFO", "memory"))
        return TrimSnapshot(last_use_ms, last_ids, busy, await self._floors.read(), trim_snapshot.has_room(infos))

    async def _other_streams(self) -> list[str]:
        """Streams of other producers, where the settings say that they are trimmed."""
        if not self._config.other_producers.trim_streams:
            return []
        return await other_producers.read_streams(self._link, self._keys)

    async def _remove_if_idle(self, stream: str, snapshot: TrimSnapshot, until_ms: int | None) -> bool:
        """Whether the stream was idle and is gone."""
        limits = self._config.trim.limits_for(stream)
        if until_ms is None or not snapshot.is_idle(stream, limits.idle_stream_s, now_ms()):
            return False
        return await self._remover.remove(stream, limits, snapshot.last_use_ms[stream], until_ms)

    async def _trim_stream(self, stream: str, snapshot: TrimSnapshot, until_ms: int | None) -> int:
        """How many entries were removed: what the archive does not need, and more where the stream is too large."""
        limits = self._config.trim.limits_for(stream)
        info = await replies.read_stream_info(self._link, keys.stream(stream))
        below = self._retention_boundary(stream, info, limits, is_busy=stream in snapshot.busy)
        if until_ms is not None:
            await oversized_entries.remove(self._link, keys.stream(stream), info)
        if below is None or until_ms is None or not self._config.trim.enabled:
            return 0
        boundary = snapshot.boundary_for_archive(stream, below)
        allowance = SmallEntries.allowed_by(limits) if snapshot.has_room else None
        count = await self._trim_to(stream, limits, allowance, boundary, until_ms)
        floor = snapshot.floors.get(stream)
        if floor is not None and await self._floors.is_over_limit(stream, floor):
            count += await self._trim_past_floor(stream, floor, below, until_ms)
        return count

    def _retention_boundary(
        self, stream: str, info: dict[bytes, Any] | None, limits: settings.TrimLimits, *, is_busy: bool
    ) -> str | None:
        """Entries below this id have been there for long enough. None: no entry has. `info`: XINFO of the stream."""
        if info is None:
            return None
        seen_ids = self._seen_ids[stream]
        seen_ids.note(self._clock_s(), replies.last_generated_id(info))
        return seen_ids.last_id_at(self._clock_s() - limits.min_retention_s) if is_busy else entry_ids.MAX

    async def _trim_to(
        self, stream: str, limits: settings.TrimLimits, allowance: SmallEntries | None, below: str, until_ms: int
    ) -> int:
        """Trim a stream to its limits; where small entries may stay beyond them, those that are too old go first."""
        if allowance is None or await self._link.do("XLEN", keys.stream(stream)) <= limits.max_entries:
            return await self._trim(stream, limits, below, until_ms)
        last_id = await self._last_id(stream) or entry_ids.MIN
        old = min(below, allowance.boundary(last_id), key=entry_ids.parse)
        count = await self._trim(stream, limits, old, until_ms)
        length, used_bytes = await self._link.do_all([("XLEN", keys.stream(stream)), _memory_usage(stream)])
        kept = max(limits.max_entries, allowance.entries_kept(length, used_bytes or 0))
        return count + await self._trim(stream, msgspec.structs.replace(limits, max_entries=kept), below, until_ms)

    async def _trim(self, stream: str, limits: settings.TrimLimits, below: str, until_ms: int) -> int:
        count = 0
        most = await self._entries_per_call(stream)
        while removed := await self._trim_once(stream, limits, below, until_ms, most):
            count += removed
        if count:
            counters.counts.of_stream(stream).trimmed += count
            self._log.debug("stream_trimmed", stream=stream, entries=count)
        return count

    async def _trim_once(self, stream: str, limits: settings.TrimLimits, below: str, until_ms: int, most: int) -> int:
        """How many entries one call removed. Small ones go by whole nodes of the stream unless trimming is exact: where
        the first node has more of them than would go with entries of average size, it goes in a call of its own."""
        for entries in sorted({most, max(most, NODE_ENTRIES), server_functions.CALL_MAX_ENTRIES}):
            call = server_functions.trim(stream, limits, below, until_ms=until_ms, most=entries)
            if removed := int(await self._link.do(*call)):
                return removed
        return 0

    async def _entries_per_call(self, stream: str) -> int:
        """How many entries of their average size may go in one call."""
        length, used_bytes = await self._link.do_all([("XLEN", keys.stream(stream)), _memory_usage(stream)])
        return rules.entries_per_call(length, used_bytes or 0, server_functions.CALL_MAX_ENTRIES)

    async def _trim_past_floor(self, stream: str, floor: ArchiveFloor, below: str, until_ms: int) -> int:
        """Remove entries that the archive still needs, from a stream that takes too much memory to wait for it."""
        limits = archive_floor.limits_past_floor(self._config.trim.limits_for(stream), self._config.archive.max_bytes)
        # What the archive has goes first: no session is cut by that.
        archived = await self._trim(stream, limits, min(below, floor.position, key=entry_ids.parse), until_ms)
        count = await self._trim(stream, limits, below, until_ms)
        if count:
            await self._floors.note_cut(stream, floor, count, await self._first_id(stream))
        return archived + count

    async def _list_missing(self, busy: Collection[str]) -> None:
        """List busy streams again: a supervisor that was killed while it removed one may have left it unlisted."""
        for page in paging.pages(list(busy), paging.PAGE_SIZE):
            listed = await self._link.do("SMISMEMBER", keys.STREAMS, *page)
            if missing := [stream for stream, is_listed in zip(page, listed, strict=True) if not is_listed]:
                await self._link.do("SADD", keys.STREAMS, *missing)

    async def _busy_streams(self) -> frozenset[str]:
        """Streams with an open session."""
        streams: set[str] = set()
        for page in paging.pages(await session_index.live_identities(self._link, self._keys), READ_MAX_SESSIONS):
            names: Sequence[Any] = await self._link.do_all(
                [("HGET", self._keys.session_state(identity), keys.STREAM_NAME) for identity in page]
            )
            streams.update(name.decode() for name in names if name is not None)
        return frozenset(streams)

    async def _first_id(self, stream: str) -> str:
        """The id of the first live entry of a stream; of an empty stream the last id that it gave out."""
        info = await replies.read_stream_info(self._link, keys.stream(stream))
        if info is None:
            return entry_ids.MAX
        first = info[b"first-entry"]
        return first[0].decode() if first else replies.last_generated_id(info)

    async def _last_id(self, stream: str) -> str | None:
        """The last id that a stream gave out, None where the stream does not exist."""
        info = await replies.read_stream_info(self._link, keys.stream(stream))
        return None if info is None else replies.last_generated_id(info)


def _memory_usage(stream: str) -> commands.Command:
    return ("MEMORY", "USAGE", keys.stream(stream), "SAMPLES", archive_floor_store.MEMORY_SAMPLES)
