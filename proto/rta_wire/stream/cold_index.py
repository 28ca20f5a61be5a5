"""What the index says of the cold part of a stream, and how live and cold are one stream.

The rule for a reader at a place: look at the live stream, then at the index. Where the index holds more than the place,
what comes next is read from the cold stream, else what was found live is it. Entries leave the live stream only after
the index says that they are cold, so each of them is seen once, at whichever moment somebody looks.
"""

from collections.abc import Mapping, Sequence

import msgspec

from rta_wire import errors
from rta_wire.stream import cursor


class Held(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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

    def is_past(self, position: str) -> bool:
        """Whether what comes after a place is cold."""
        return cursor.parse_id(self.last_id) > cursor.parse_id(position)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Held).decode


def dump(held: Held) -> bytes:
    return _encode(held)


def parse(raw: bytes | None) -> Held | None:
    """From a field of the index; None where there is none."""
    if raw is None:
        return None
    try:
        found = _decode(raw)
        cursor.parse_id(found.first_id)
        cursor.parse_id(found.last_id)
    except (msgspec.DecodeError, ValueError) as error:
        raise errors.BadBatch(reason=f"the index has {raw[:100]!r}: {error}") from error
    return found


def joined(live: cursor.Part, held: Held) -> cursor.Part:
    """What was found live above what is cold: everything up to there is accounted for."""
    return live._replace(before=held.added)


def part(held: Held, entries: Sequence[tuple[str, Sequence[bytes]]]) -> cursor.Part:
    """Entries from the cold stream with the counters of that part: what follows is read in the next step."""
    found: list[tuple[bytes, Mapping[bytes, bytes]]] = [
        (entry_id.encode(), dict(zip(fields[::2], fields[1::2], strict=True))) for entry_id, fields in entries
    ]
    return cursor.Part(found, held.added, held.entries, held.first_id, held.last_id, complete=False)


class Counters(msgspec.Struct, frozen=True):
    """A stream at one moment, live and cold together."""

    first_id: str | None = None
    last_id: str = cursor.START
    added: int = 0
    length: int = 0
    live_first_id: str | None = None
    cold_id: str = cursor.START
    """Up to where it is cold."""
    cold_added: int = 0
    """Entries that were ever added up to there."""
    hole: int = 0
    """Entries that are gone between what is cold and what is live: for as long as nobody has trimmed what is cold."""

    @property
    def removed(self) -> int:
        """Entries that are gone, from the front but for the hole."""
        return self.added - self.length

    def first_after(self, position: str) -> str | None:
        """The first entry that is left of the part that a place is in."""
        is_cold = cursor.parse_id(position) < cursor.parse_id(self.cold_id)
        return self.first_id if is_cold else self.live_first_id

    def gone_after(self, added: int) -> int:
        """Entries that are gone after a place up to which so many were ever added."""
        if added >= self.cold_added:
            return max(0, self.hole + self.cold_added - added) if self.cold_added else max(0, self.removed - added)
        return max(0, self.removed - self.hole - added) + self.hole


def counters(live: cursor.Part | None, held: Held | None) -> Counters:
    """From what the live stream says, None where there is none, and what the index said after that."""
    if live is None and held is None:
        return Counters()
    if held is None:
        assert live is not None
        return Counters(live.first_id, live.last_id, live.entries_added, live.length, live.first_id)
    if live is None or live.entries_added < held.added:
        # The live stream was lost, and perhaps made anew: its count began again.
        more = live.length if live is not None else 0
        last_id = held.last_id if live is None or held.is_past(live.last_id) else live.last_id
        added, length, hole = held.added + more, held.entries + more, 0
    else:
        # Entries that are cold already may still stand in the live stream: they count once.
        above = min(live.length, live.entries_added - held.added)
        hole = max(0, live.entries_added - live.length - held.added)
        added, length, last_id = live.entries_added, held.entries + above, live.last_id
    first_id = live.first_id if live is not None else None
    return Counters(held.first_id, last_id, added, length, first_id, held.last_id, held.added, hole)
