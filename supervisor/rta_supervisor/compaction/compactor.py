"""The compacting duty: which streams are cold, one at a time and not too fast. How one is moved is `moving`'s.

A stream is cold when no session in it is open and nothing was added to it for `after_s`. It may wake up at any moment:
what is added then stays live above what is cold.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.catalogue.model import Catalogue, StorageLocation
from rta_supervisor.compaction.bounds import trim_cold
from rta_supervisor.compaction.mover import MoveResult, StreamMover
from rta_supervisor.compaction.store import CompactionStore
from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import leases, periodic
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention.archive_floor import ArchiveFloor, ArchiveFloors
from rta_supervisor.retention.trimmer import UNLIMITED_ENTRIES
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.compaction import HOUR_S
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import entry_ids, errors, keys
from rta_wire.stream import cold_index

PAUSE_MAX_S: Final = 10.0
"""Waits are cut into pieces of this length: settings may change, and a pause be called."""


class Compactor:
    """One pass over all streams now and then."""

    def __init__(self, link: Link, sessions: SessionStore, catalogue: Catalogue, config: settings.Settings) -> None:
        self._link = link
        self._sessions = sessions
        self._catalogue = catalogue
        self._config = config
        self._floors = ArchiveFloors(link, config)
        self._turns: periodic.DutyTurns = periodic.UNLEASED
        self._began_s: deque[float] = deque()
        self._log = log.get(duty="compact")

    async def run(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Sweep every `compact.every_s` until cancelled. What is interrupted goes on in the next pass."""
        self._turns = turns
        await periodic.in_turns(turns, lambda: self._config.compact.every_s, self._sweep_in_turn, self._link.outage_log)

    async def _sweep_in_turn(self, until_ms: int | None) -> None:
        if until_ms is None:
            return
        try:
            await self.sweep(until_ms)
        except leases.LeaseExpired:
            self._log.info("compaction_interrupted")

    async def sweep(self, until_ms: int = commands.FOREVER) -> dict[str, MoveResult]:
        """Every stream once: what was moved, by stream."""
        await self._index_unindexed()
        await self._trim_cold(until_ms)
        moved: dict[str, MoveResult] = {}
        if not self._config.compact.after_s:
            return moved
        for name in await self._cold_streams():
            loop_watch.report_alive()
            if await self._is_paused() or not self._may_begin():
                break
            place = CompactionStore(self._link, self._config.keys, name)
            last_id = await self._last_id_to_move(place)
            if last_id is None:
                continue
            self._began_s.append(anyio.current_time())
            done = await self._trying(name, lambda: self._compact(place, last_id))  # noqa: B023 - awaited at once
            if done is not None and done.entries:
                moved[name] = done
        return moved

    async def _trying(self, name: str, work: Callable[[], Awaitable[MoveResult]]) -> MoveResult | None:
        """One stream that is spoilt keeps no other from being compacted."""
        try:
            return await work()
        except (errors.BadBatch, errors.ColdDiffers, errors.TooLargeForBatch) as error:
            counters.counts.compactions["failed"] += 1
            self._log.error("stream_not_compacted", stream=name, error=str(error))
        except redis.exceptions.ResponseError as error:
            counters.counts.compactions["failed"] += 1
            self._log.error("stream_not_compacted", stream=name, error=str(error))
        return None

    async def _compact(self, place: CompactionStore, last_id: str) -> MoveResult:
        done = await StreamMover(place, self._config.compact.options).run(last_id, self._permit_batch, self._slow_down)
        if done.entries:
            counters.counts.compactions["done"] += 1
            self._log.info(
                "stream_compacted",
                stream=place.stream,
                entries=done.entries,
                batches=done.batches,
                live_bytes=done.live_bytes,
                cold_bytes=done.size_bytes,
                raw_bytes=done.raw_bytes,
            )
            await self._record_location(place)
        return done

    async def _record_location(self, place: CompactionStore) -> None:
        """For people who look for things: what is where also stands in the index, which readers go by."""
        found = await place.index()
        if found is None:
            return
        where = StorageLocation(
            *(place.stream, 0, "cold", keys.cold_stream(place.stream), found.first_id, found.last_id),
            *(found.entries, found.size_bytes, found.noted_ms),
        )
        try:
            await self._catalogue.save_locations([where])
        except errors.CatalogueUnavailable as error:
            self._log.warning("place_not_noted", stream=place.stream, error=str(error))

    async def _permit_batch(self) -> int:
        """For the next batch: as long as the duty is ours and nobody paused it."""
        if await self._is_paused():
            raise leases.LeaseExpired
        return await self._until_ms()

    async def _until_ms(self) -> int:
        loop_watch.report_alive()
        until_ms = await self._turns.next_turn(0)
        if until_ms is None:
            raise leases.LeaseExpired
        return until_ms

    async def _slow_down(self, moved: MoveResult) -> None:
        counters.counts.compacted_raw_bytes += moved.raw_bytes
        counters.counts.compacted_live_bytes += moved.live_bytes
        counters.counts.compacted_cold_bytes += moved.size_bytes
        left_s = moved.raw_bytes / self._config.compact.bytes_per_s
        while left_s > 0:
            loop_watch.report_alive(PAUSE_MAX_S)
            await anyio.sleep(min(left_s, PAUSE_MAX_S))
            left_s -= PAUSE_MAX_S

    async def _is_paused(self) -> bool:
        return self._config.compact.paused or bool(await self._link.do("GET", self._config.keys.cold_pause()))

    def _may_begin(self) -> bool:
        """Whether less than so many streams were begun in the last hour."""
        since_s = anyio.current_time() - HOUR_S
        while self._began_s and self._began_s[0] < since_s:
            self._began_s.popleft()
        return len(self._began_s) < self._config.compact.streams_per_hour

    async def _cold_streams(self) -> list[str]:
        """Streams that nobody uses, those that were used the longest ago first."""
        before_ms = now_ms() - int(self._config.compact.after_s * 1000)
        used = await self._link.do("ZRANGEBYSCORE", self._config.keys.streams_used(), "-inf", before_ms)
        open_refs, _ = await self._sessions.open_and_closed()
        busy = {ref.stream for ref in open_refs}
        return [name for name in map(bytes.decode, used) if name not in busy]

    async def _last_id_to_move(self, place: CompactionStore) -> str | None:
        """Up to where a stream is to be moved. None: nothing is there, or it is too young."""
        try:
            live = await place.live()
        except redis.exceptions.ResponseError as error:
            self._log.error("stream_not_compacted", stream=place.stream, error=str(error))
            return None
        is_old = entry_ids.parse(live.last_id)[0] <= now_ms() - self._config.compact.after_s * 1000
        return live.last_id if live.length and is_old else None

    async def _index_unindexed(self) -> None:
        """What is cold and in no index: Redis lost the one and not the other."""
        names = [raw.decode() for raw in await self._link.do("ZRANGE", self._config.keys.streams_used(), 0, -1)]
        known = set(map(bytes.decode, pairs_to_dict(await self._link.do("HGETALL", self._config.keys.cold_index()))))
        unknown = [name for name in names if name not in known]
        there = await self._link.do_all([("EXISTS", keys.cold_stream(name)) for name in unknown])
        for name in (name for name, is_there in zip(unknown, there, strict=True) if is_there):
            place = CompactionStore(self._link, self._config.keys, name)
            await self._trying(name, lambda: self._repair(place))  # noqa: B023 - awaited at once

    async def _repair(self, place: CompactionStore) -> MoveResult:
        await StreamMover(place, self._config.compact.options).repair(await self._until_ms())
        return MoveResult()

    async def _trim_cold(self, until_ms: int) -> None:
        """Bounds hold for live and cold together, also where nothing is compacted any more."""
        found = pairs_to_dict(await self._link.do("HGETALL", self._config.keys.cold_index()))
        if not found:
            return
        floors = await self._floors.read()
        await self._register(list(map(bytes.decode, found)))
        for raw_name, raw in found.items():
            loop_watch.report_alive()
            name = raw_name.decode()
            try:
                one = cold_index.parse(raw)
                if one is not None:
                    await self._trim_cold_stream(
                        CompactionStore(self._link, self._config.keys, name), one, floors.get(name), until_ms
                    )
            except (errors.BadBatch, redis.exceptions.ResponseError) as error:
                self._log.error("cold_not_trimmed", stream=name, error=str(error))

    async def _trim_cold_stream(
        self, place: CompactionStore, one: cold_index.ColdExtent, floor: ArchiveFloor | None, until_ms: int
    ) -> None:
        """What waits for the archive stays, until it takes more memory than waiting may cost."""
        limits = self._config.trim.limits_for(place.stream)
        if floor is None:
            await trim_cold(place, one, limits, until_ms)
        elif await self._floors.is_over_limit(place.stream, floor):
            enough = msgspec.structs.replace(
                limits, max_entries=UNLIMITED_ENTRIES, max_bytes=self._config.archive.max_bytes, max_age_s=0
            )
            if cut := await trim_cold(place, one, enough, until_ms):
                left = await place.index()
                first_id = one.last_id if left is None else left.first_id
                await self._floors.note_cut(place.stream, floor, cut, first_id)

    async def _register(self, names: list[str]) -> None:
        """What is cold is looked after like every stream: one that is in no list would stay for ever."""
        scores = await self._link.do("ZMSCORE", self._config.keys.streams_used(), *names)
        missing = [name for name, score in zip(names, scores, strict=True) if score is None]
        if missing:
            words = [word for name in missing for word in (now_ms(), name)]
            await self._link.do("ZADD", self._config.keys.streams_used(), "NX", *words)
