"""The trimming duty: keeps streams short, and removes streams that are idle and days of sources that are old.

Decides which streams are trimmed and when. The removing itself is a server function, so that two supervisors that sweep
at once remove no more than one would. Touches only streams that a session of ours used.

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
from rta_supervisor.retention import archive_floor, day_sweep, server_functions, session_index
from rta_supervisor.retention.archive_floor import ArchiveFloor
from rta_supervisor.retention.archive_floor_store import ArchiveFloorStore
from rta_supervisor.retention.seen_ids import SeenIds
from rta_supervisor.retention.stream_removal import StreamRemover
from rta_supervisor.retention.trim_snapshot import TrimSnapshot
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, paging, replies, scanning
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys

READ_MAX_SESSIONS: Final = 1000


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
        streams = [stream for stream in snapshot.last_use_ms if stream not in days.removed]
        self._seen_ids = {stream: self._seen_ids.get(stream, SeenIds()) for stream in streams}
        trimmed: dict[str, int] = {}
        removed = [*days.removed]
        for stream in streams:
            loop_watch.report_alive()
            try:
                if stream not in days.streams and await self._remove_if_idle(stream, snapshot, until_ms):
                    removed.append(stream)
                elif self._config.trim.enabled and (count := await self._trim_stream(stream, snapshot, until_ms)):
                    trimmed[stream] = count
            except redis.exceptions.ResponseError as error:
                # One key of a wrong type keeps no other stream from being trimmed.
                self._log.error("stream_not_trimmed", stream=stream, error=str(error))
        if until_ms is not None:
            self._floors.forget_all_but(snapshot.floors)
            await self._floors.renew_unarchived()
        return TrimResult(trimmed, tuple(removed))

    async def _read_snapshot(self) -> TrimSnapshot:
        used = await scanning.read_sorted_set(self._link, self._keys.streams_used())
        last_use_ms = {name.decode(): float(score) for name, score in used.items()}
        # Before the sessions are read: what is added later may be of a session that is not among them.
        last_ids = (
            {stream: await self._last_id(stream) for stream in last_use_ms} if self._config.archive.required else {}
        )
        busy = await self._busy_streams()
        return TrimSnapshot(last_use_ms, last_ids, busy, await self._floors.read())

    async def _remove_if_idle(self, stream: str, snapshot: TrimSnapshot, until_ms: int | None) -> bool:
        """Whether the stream was idle and is gone."""
        limits = self._config.trim.limits_for(stream)
        if until_ms is None or not snapshot.is_idle(stream, limits.idle_stream_s, now_ms()):
            return False
        return await self._remover.remove(stream, limits, snapshot.last_use_ms[stream], until_ms)

    async def _trim_stream(self, stream: str, snapshot: TrimSnapshot, until_ms: int | None) -> int:
        """How many entries were removed: what the archive does not need, and more where the stream is too large."""
        limits = self._config.trim.limits_for(stream)
        below = await self._retention_boundary(stream, limits, is_busy=stream in snapshot.busy)
        if below is None or until_ms is None:
            return 0
        count = await self._trim(stream, limits, snapshot.boundary_for_archive(stream, below), until_ms)
        floor = snapshot.floors.get(stream)
        if floor is not None and await self._floors.is_over_limit(stream, floor):
            count += await self._trim_past_floor(stream, floor, below, until_ms)
        return count

    async def _retention_boundary(self, stream: str, limits: settings.TrimLimits, *, is_busy: bool) -> str | None:
        """Entries below this id have been there for long enough. None: no entry has."""
        last_id = await self._last_id(stream)
        if last_id is None:
            return None
        seen_ids = self._seen_ids[stream]
        seen_ids.note(self._clock_s(), last_id)
        return seen_ids.last_id_at(self._clock_s() - limits.min_retention_s) if is_busy else entry_ids.MAX

    async def _trim(self, stream: str, limits: settings.TrimLimits, below: str, until_ms: int) -> int:
        count = 0
        while removed := await self._link.do(*server_functions.trim(stream, limits, below, until_ms=until_ms)):
            count += removed
        if count:
            counters.counts.of_stream(stream).trimmed += count
            self._log.debug("stream_trimmed", stream=stream, entries=count)
        return count

    async def _trim_past_floor(self, stream: str, floor: ArchiveFloor, below: str, until_ms: int) -> int:
        """Remove entries that the archive still needs, from a stream that takes too much memory to wait for it."""
        limits = archive_floor.limits_past_floor(self._config.trim.limits_for(stream), self._config.archive.max_bytes)
        count = await self._trim(stream, limits, below, until_ms)
        if count:
            await self._floors.note_cut(stream, floor, count, await self._first_id(stream))
        return count

    async def _list_missing(self, busy: Collection[str]) -> None:
        """List busy streams again: a supervisor that was killed while it removed one may have left it unlisted."""
        if not busy:
            return
        listed = await self._link.do("SMISMEMBER", keys.STREAMS, *busy)
        if missing := [stream for stream, is_listed in zip(busy, listed, strict=True) if not is_listed]:
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
