"""Keeps live and cold together within the bounds of `[trim]`: the oldest batches go first, whole ones, and none that
would leave less than the bounds allow.
"""

from typing import Final

import msgspec

from rta_supervisor.compaction import store
from rta_supervisor.compaction.store import CompactionStore
from rta_supervisor.diagnostics import log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_wire import entry_ids
from rta_wire.cold import batch as cold_batch
from rta_wire.stream.cold_index import ColdExtent

NO_SECOND: Final = 1


async def trim_cold(place: CompactionStore, held: ColdExtent, limits: settings.TrimLimits, until_ms: int) -> int:
    """Entries that went. The index is told first: who reads then misses nothing that it says is there."""
    count = 0
    live = await place.live()
    above = min(live.length, max(live.added - held.added, 0))
    current: ColdExtent | None = held
    while current is not None and await _may_be_too_much(place, current, above, limits):
        first = await place.batch_after(entry_ids.MIN)
        if first is None:
            break
        batch_id, data = first
        header = store.read_header(first)
        if entry_ids.parse(header.last_id) < entry_ids.parse(current.first_id):
            # Killed after the index was told: it counts this one no more.
            await place.remove_batch(batch_id, until_ms)
            continue
        if not await _is_too_much(place, current, header, above, limits):
            break
        after = await _index_without_batch(place, current, header, batch_id, len(data))
        await place.replace_index_entry(current, after, until_ms)
        await place.remove_batch(batch_id, until_ms)
        count += header.entries
        current = after
    if count:
        log.get(duty="compact").info("cold_trimmed", stream=place.stream, entries=count)
    return count


async def _may_be_too_much(place: CompactionStore, held: ColdExtent, above: int, limits: settings.TrimLimits) -> bool:
    """The same without reading a batch: as long as all is well nothing large is read."""
    if held.entries + above > limits.max_entries or _is_old(held.first_id, limits):
        return True
    if await place.batch_count() > held.batches:
        return True
    return bool(limits.max_bytes) and await place.memory_bytes() > limits.max_bytes


async def _is_too_much(
    place: CompactionStore, held: ColdExtent, header: cold_batch.Header, above: int, limits: settings.TrimLimits
) -> bool:
    if held.entries + above - header.entries >= limits.max_entries or _is_old(header.last_id, limits):
        return True
    return bool(limits.max_bytes) and await place.memory_bytes() > limits.max_bytes


def _is_old(entry_id: str, limits: settings.TrimLimits) -> bool:
    return bool(limits.max_age_s) and entry_ids.parse(entry_id)[0] < now_ms() - limits.max_age_s * 1000


async def _index_without_batch(
    place: CompactionStore, held: ColdExtent, header: cold_batch.Header, batch_id: str, size: int
) -> ColdExtent | None:
    if held.batches == NO_SECOND:
        return None
    second = await place.batch_after(batch_id)
    if second is None:
        return None
    return msgspec.structs.replace(
        held,
        first_id=store.read_header(second).first_id,
        entries=held.entries - header.entries,
        batches=held.batches - 1,
        size_bytes=held.size_bytes - size,
        live_bytes=held.live_bytes - header.live_bytes,
        raw_bytes=held.raw_bytes - header.raw_bytes,
        noted_ms=now_ms(),
    )
