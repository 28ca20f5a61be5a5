"""Samples of a channel side by side: cuts the buffers out of many bursts, puts those of a channel into one column, and
reorders its bytes where that compresses better. Undone without knowing what a burst is.

A cut is worth only what it saves: nothing here depends on a burst being well-formed, and any bytes come back as they
were.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from rta_wire import limits
from rta_wire.arrays import U32
from rta_wire.codec import message_tags
from rta_wire.pb import scan_pb2

UNSPLIT: Final = 1
WIDTHS: Final = (8, 4, 2)
"""Sizes of samples whose bytes may be reordered: all first bytes, then all second ones, and so on."""

CUT_MIN_BYTES: Final = 48
"""A shorter buffer stays where it is: its place in the table would cost more than it saves."""

COLUMNS_MAX: Final = 4096
TRY_BYTES: Final = 16 * limits.KIB
TRY_AGAIN: Final = 16
"""Batches for which the order of a channel's bytes is kept before it is tried again."""

WORTH: Final = 0.97
"""A reordered column has to be this much smaller: reordering costs time at each read."""

GOOD_ENOUGH: Final = 0.8
"""One that is this much smaller is taken without trying others."""

_quick: Final = pa.Codec("zstd", 1)


class Cut(NamedTuple):
    """A buffer inside a value."""

    start: int
    size: int
    channel: int


class ByteColumn(NamedTuple):
    """Buffers of one channel, as they are stored."""

    data: bytes
    width: int


def find_buffers(raw: bytes) -> list[Cut]:
    """Buffers of samples in a burst, in the order in which they stand there."""
    try:
        items = scan_pb2.Burst.FromString(raw).data
    except DecodeError:
        return []
    if len(items) * CUT_MIN_BYTES > len(raw):
        return []
    return list(_found(raw, items))


def _found(raw: bytes, items: Sequence[scan_pb2.Item]) -> Iterator[Cut]:
    at, end = 0, len(raw)
    for item in items:
        if at >= end or raw[at] != message_tags.BURST_DATA:
            return
        size, shift, at = 0, 0, at + 1
        while at < end:
            size |= (raw[at] & 0x7F) << shift
            shift += 7
            at += 1
            if raw[at - 1] < 0x80:
                break
        at += size
        kind = item.WhichOneof("data")
        if kind == "timestamped_data":
            one: scan_pb2.Timestamped | scan_pb2.Periodic = item.timestamped_data
        elif kind == "periodic_data":
            one = item.periodic_data
        else:
            continue
        held = len(one.buffer)
        if CUT_MIN_BYTES <= held <= size and at <= end:
            yield Cut(at - held, held, one.channel_id)


class WidthChooser:
    """Which order of bytes suits which channel. Learnt by trying, and tried again now and then."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._batches = 0

    def next_batch(self) -> None:
        self._batches += 1
        if self._batches % TRY_AGAIN == 0:
            self._known.clear()

    def width_for(self, channel: int, data: bytes) -> int:
        known = self._known.get(channel)
        if known is None:
            known = self._known[channel] = _tried(data[:TRY_BYTES])
        return known


def _tried(sample: bytes) -> int:
    plain = len(_quick.compress(sample, asbytes=True))
    best, width = plain * WORTH, UNSPLIT
    for one in WIDTHS:
        size = len(_quick.compress(split_bytes(sample, one), asbytes=True))
        if size < best:
            best, width = size, one
        if best < plain * GOOD_ENOUGH:
            break
    return width


def split_bytes(data: bytes, width: int) -> bytes:
    """All first bytes of samples of this width, all second ones, and so on; then what is left over."""
    if width == UNSPLIT:
        return data
    whole = len(data) // width * width
    table = np.frombuffer(data, np.uint8, whole).reshape(-1, width)
    return table.T.tobytes() + data[whole:]


def join_bytes(data: bytes, width: int) -> bytes:
    """The other way round."""
    if width == UNSPLIT:
        return data
    whole = len(data) // width * width
    table = np.frombuffer(data, np.uint8, whole).reshape(width, -1)
    return table.T.tobytes() + data[whole:]


class SplitValues(NamedTuple):
    """Values taken apart: what stays, columns, and what came from where."""

    rest: bytes
    columns: list[ByteColumn]
    counts: U32
    """Cuts of each value."""
    gaps: U32
    """Bytes that stay before each cut, since the cut before it or the start of the value."""
    sizes: U32
    column_indices: U32
    """The column of each cut."""


def split_values(values: Sequence[tuple[bytes, bool]], widths: WidthChooser) -> SplitValues:
    """`values`: each with whether it is a burst."""
    widths.next_batch()
    rest: list[bytes] = []
    pieces: dict[int, list[bytes]] = {}
    order: dict[int, int] = {}
    counts, gaps, sizes, places = [], [], [], []
    for value, is_burst in values:
        at = count = 0
        for cut in find_buffers(value) if is_burst else ():
            if cut.channel not in order and len(order) == COLUMNS_MAX:
                continue
            places.append(order.setdefault(cut.channel, len(order)))
            rest.append(value[at : cut.start])
            gaps.append(cut.start - at)
            sizes.append(cut.size)
            at = cut.start + cut.size
            pieces.setdefault(cut.channel, []).append(value[cut.start : at])
            count += 1
        rest.append(value[at:] if at else value)
        counts.append(count)
    columns = []
    for channel in order:
        data = b"".join(pieces[channel])
        width = widths.width_for(channel, data)
        columns.append(ByteColumn(split_bytes(data, width), width))
    numbers = (np.array(some, "<u4") for some in (counts, gaps, sizes, places))
    return SplitValues(b"".join(rest), columns, *numbers)


def join_values(woven: SplitValues, lengths: Sequence[int]) -> list[bytes]:
    """The values again. Raises ValueError where the numbers do not add up."""
    if any(column.width not in (UNSPLIT, *WIDTHS) for column in woven.columns):
        raise ValueError("a column has samples of a width that there is not")
    sources = [memoryview(join_bytes(column.data, column.width)) for column in woven.columns]
    _check(woven, lengths)
    rest, at = memoryview(woven.rest), 0
    done = [0] * len(sources)
    steps = iter(zip(woven.gaps.tolist(), woven.sizes.tolist(), woven.column_indices.tolist(), strict=True))
    values = []
    for count, length in zip(woven.counts.tolist(), lengths, strict=True):
        if not count:
            values.append(bytes(rest[at : at + length]))
            at += length
            continue
        parts: list[memoryview] = []
        left = length
        for _ in range(count):
            gap, size, place = next(steps)
            parts.append(rest[at : at + gap])
            at += gap
            start = done[place]
            done[place] = start + size
            parts.append(sources[place][start : start + size])
            left -= gap + size
        if left < 0:
            raise ValueError("a value is shorter than what was cut from it")
        parts.append(rest[at : at + left])
        at += left
        values.append(b"".join(parts))
    return values


def _check(woven: SplitValues, lengths: Sequence[int]) -> None:
    """That no slice goes past its end: those are silently short."""
    cut_count = int(woven.counts.sum(dtype=np.uint64))
    counts = (len(woven.gaps), len(woven.sizes), len(woven.column_indices))
    if len(woven.counts) != len(lengths) or any(count != cut_count for count in counts):
        raise ValueError("the numbers of cuts do not agree")
    if cut_count and int(woven.column_indices.max()) >= len(woven.columns):
        raise ValueError("a cut is of a column that there is not")
    taken = np.bincount(woven.column_indices, woven.sizes, minlength=len(woven.columns))
    if taken.tolist() != [len(column.data) for column in woven.columns]:
        raise ValueError("columns are not as long as what was cut")
    if sum(lengths) != len(woven.rest) + int(woven.sizes.sum(dtype=np.uint64)):
        raise ValueError("the lengths of values do not add up")
