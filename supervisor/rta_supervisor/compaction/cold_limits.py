"""Whether a stream, live and cold together, is over the limits of `[trim]`, and whether its oldest batch is to be
removed. Pure.

Only whole batches are removed, so more may stay than the limits say, and never less.
"""

import msgspec

from rta_supervisor.settings import settings
from rta_wire import entry_ids
from rta_wire.cold.batch import Header
from rta_wire.stream.cold_index import ColdExtent


class StreamUsage(msgspec.Struct, frozen=True):
    """What a stream takes at one time, besides what the index says of its cold part."""

    live_entries: int
    """Live entries above the cold part."""
    memory_bytes: int
    """Live and cold together. Read only where the memory is limited."""
    at_ms: int


def may_exceed(extent: ColdExtent, usage: StreamUsage, limits: settings.TrimLimits) -> bool:
    """Whether the stream may be over a limit, by the index alone: as long as it is not, no batch has to be read."""
    return (
        extent.entries + usage.live_entries > limits.max_entries
        or _is_old(extent.first_id, usage, limits)
        or _is_too_large(usage, limits)
    )


def should_remove(first: Header, extent: ColdExtent, usage: StreamUsage, limits: settings.TrimLimits) -> bool:
    """Whether the first batch is to be removed: enough entries stay without it, it is too old, or memory is short."""
    return (
        extent.entries + usage.live_entries - first.entries >= limits.max_entries
        or _is_old(first.last_id, usage, limits)
        or _is_too_large(usage, limits)
    )


def _is_old(entry_id: str, usage: StreamUsage, limits: settings.TrimLimits) -> bool:
    return bool(limits.max_age_s) and entry_ids.ms_of(entry_id) < usage.at_ms - limits.max_age_s * 1000


def _is_too_large(usage: StreamUsage, limits: settings.TrimLimits) -> bool:
    return 0 < limits.max_bytes < usage.memory_bytes
