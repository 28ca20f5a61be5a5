"""What the index says of the cold part of a stream, and how live and cold are one stream.

The rule for a reader at a place: look at the live stream, then at the index. Where the index holds more than the place,
what comes next is read from the cold stream, else what was found live is it. Entries leave the live stream only after
the index says that they are cold, so each of them is seen once, at whichever moment somebody looks.
"""

import msgspec

from rta_wire import entry_ids, errors


class ColdExtent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cold part of a stream: everything up to `last_id`."""

    first_id: str
    last_id: str
    entries: int
    batches: int
    added: int
    """Entries that were ever added to the stream up to `last_id`, those that were trimmed included."""
    size_bytes: int
    """The batches as they are stored."""
    live_bytes: int
    """What the same entries took live, without what Redis adds."""
    raw_bytes: int
    number: int
    """The session of the last entry: ids of sessions never go below it."""
    noted_ms: int

    def is_ahead_of(self, position: str) -> bool:
        """Whether what comes after a place is cold."""
        return entry_ids.parse(self.last_id) > entry_ids.parse(position)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ColdExtent).decode


def dump(held: ColdExtent) -> bytes:
    return _encode(held)


def parse(raw: bytes | None) -> ColdExtent | None:
    """From a field of the index; None where there is none."""
    if raw is None:
        return None
    try:
        found = _decode(raw)
        entry_ids.parse(found.first_id)
        entry_ids.parse(found.last_id)
    except (msgspec.DecodeError, ValueError) as error:
        raise errors.BadBatch(reason=f"the index has {raw[:100]!r}: {error}") from error
    return found
