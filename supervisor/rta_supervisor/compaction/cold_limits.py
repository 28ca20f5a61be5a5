"""Whether a stream, live and cold together, is over the limits of `[trim]`, and whether its oldest batch is to be
removed. Pure.

Only whole batches are removed, so more may stay than the limits say, and never less.
"""

import msgspec

from rta_supervisor.retention.trim_snapshot import SmallEntries
from rta_supervisor.settings import settings
from rta_wire import entry_ids
from rta_wire.cold.batch import Header
from rta_wire.stream.cold_index import ColdExtent


class StreamUsage(msgspec.Struct, frozen=True):
    """What a stream takes at one time, besides what the index says of its cold part."""

    live_entries: int
    """Live entries above the cold part."""
    memory_bytes: int
    """Live and cold together. Read only where the memory is limited, or the entries are many."""
    at_ms: int
    last_id: str = entry_ids.MIN
    """The last id of the stream."""
    has_room: bool = True
    """Whether Redis uses so little of its memory that streams may have more than `max_entries`."""


def may_exceed(extent: ColdExtent, usage: StreamUsage, limits: settings.TrimLimits) -> bool:
    """Whether the stream may be over a limit, by the index alone: as long as it is not, no batch has to be read."""
    return (
        are_many(extent, usage.live_entries, limits)
        or _is_old(extent.first_id, usage, limits)
        or _is_too_large(usage, limits)
    )


def should_remove(first: Header, extent: ColdExtent, usage: StreamUsage, limits: settings.TrimLimits) -> bool:
    """Whether the first batch is to be removed: enough entries stay without it, it is too old, or memory is short."""
    return (
        (
            extent.entries + usage.live_entries - first.entries >= limits.max_entries
            and not _is_kept_as_small(first, usage, limits)
        )
        or _is_old(first.last_id, usage, limits)
        or _is_too_large(usage, limits)
    )


def are_many(extent: ColdExtent, live_entries: int, limits: settings.TrimLimits) -> bool:
    """Whether a stream has more than `max_entries`."""
    return extent.entries + live_entries > limits.max_entries


def _is_kept_as_small(first: Header, usage: StreamUsage, limits: settings.TrimLimits) -> bool:
    """Whether a batch stays although there are entries enough: they are small, and not much older than the last."""
    allowance = SmallEntries.allowed_by(limits) if usage.has_room else None
    if allowance is None or usage.memory_bytes > allowance.max_bytes:
        return False
    return not entry_ids.is_after(allowance.boundary(usage.last_id), first.last_id)


def _is_old(entry_id: str, usage: StreamUsage, limits: settings.TrimLimits) -> bool:
    return bool(limits.max_age_s) and entry_ids.ms_of(entry_id) < usage.at_ms - limits.max_age_s * 1000


def _is_too_large(usage: StreamUsage, limits: settings.TrimLimits) -> bool:
    return 0 < limits.max_bytes < usage.memory_bytes
