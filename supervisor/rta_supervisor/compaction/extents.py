"""How the index entry of a stream changes when a batch is added to its cold part or removed from it. Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

from rta_wire import keys
from rta_wire.cold.batch import Header
from rta_wire.stream.cold_index import ColdExtent

SESSION_ID_MAX_DIGITS: Final = 12
"""A longer number in an entry is not taken for a stream session id, as in `recovery`."""


def with_batch(
    extent: ColdExtent | None, header: Header, size_bytes: int, *, session_id: int, added: int, at_ms: int
) -> ColdExtent:
    """The index entry after one more batch.

    `session_id`: the session of the last entry of the batch. `added`: how many entries were ever added to the stream up
    to that entry.
    """
    return ColdExtent(
        first_id=extent.first_id if extent else header.first_id,
        last_id=header.last_id,
        entries=(extent.entries if extent else 0) + header.entries,
        batches=(extent.batches if extent else 0) + 1,
        added=added,
        size_bytes=(extent.size_bytes if extent else 0) + size_bytes,
        live_bytes=(extent.live_bytes if extent else 0) + header.live_bytes,
        raw_bytes=(extent.raw_bytes if extent else 0) + header.raw_bytes,
        number=max(extent.number if extent else 0, session_id),
        noted_ms=at_ms,
    )


def without_first_batch(
    extent: ColdExtent, header: Header, size_bytes: int, *, second: Header, at_ms: int
) -> ColdExtent:
    """The index entry without its first batch. `second`: the header of the batch that is the first from then on."""
    return msgspec.structs.replace(
        extent,
        first_id=second.first_id,
        entries=extent.entries - header.entries,
        batches=extent.batches - 1,
        size_bytes=extent.size_bytes - size_bytes,
        live_bytes=extent.live_bytes - header.live_bytes,
        raw_bytes=extent.raw_bytes - header.raw_bytes,
        noted_ms=at_ms,
    )


def session_id_of(names: Sequence[bytes], values: Sequence[bytes]) -> int:
    """The stream session id in the fields of an entry, 0 where it has none."""
    for name, value in zip(names, values, strict=True):
        if name == keys.ENTRY_ID and value.isdigit() and len(value) <= SESSION_ID_MAX_DIGITS:
            return int(value)
    return 0
