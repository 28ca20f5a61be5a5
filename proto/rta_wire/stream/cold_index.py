"""The index of cold parts: for each stream, up to which id its entries are in the cold stream, and how many.

How live and cold are read as one stream is `live_then_cold`'s; the compactor writes the index.
"""

import msgspec

from rta_wire import entry_ids, errors


class ColdExtent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cold part of a stream: all entries that are left up to `last_id`. A field of the index holds it as JSON."""

    first_id: str
    last_id: str
    entries: int
    batches: int
    added: int
    """Entries that were ever added to the stream up to `last_id`, trimmed ones included."""
    size_bytes: int
    """Size of the batches as they are stored."""
    live_bytes: int
    """Size of the same entries in the live stream, without the overhead of Redis."""
    raw_bytes: int
    number: int
    """Stream session id of the last entry: new sessions of the stream get higher ones."""
    noted_ms: int

    def is_ahead_of(self, position: str) -> bool:
        """Whether the next entries after an id are cold."""
        return entry_ids.is_after(self.last_id, position)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ColdExtent).decode


def dump(extent: ColdExtent) -> bytes:
    return _encode(extent)


def parse(raw: bytes | None) -> ColdExtent | None:
    """The value of a field of the index; None where there is no such field."""
    if raw is None:
        return None
    try:
        extent = _decode(raw)
        entry_ids.parse(extent.first_id)
        entry_ids.parse(extent.last_id)
    except (msgspec.DecodeError, ValueError) as error:
        raise errors.BadBatch(reason=f"the index has {raw[:100]!r}: {error}") from error
    return extent
