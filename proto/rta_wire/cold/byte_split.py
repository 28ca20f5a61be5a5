"""Samples of a channel side by side: cuts sample buffers out of many bursts, puts those of a channel into one column,
and reorders the bytes of a column where that compresses better. Joining them again needs no knowledge of bursts.

A cut only makes a batch smaller: any bytes come back as they were, those of a malformed burst too.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from rta_wire import limits
from rta_wire.arrays import U32
from rta_wire.codec.protobuf import message_tags
from rta_wire.pb import scan_pb2

UNSPLIT: Final = 1
WIDTHS: Final = (8, 4, 2)
"""Sizes of samples whose bytes may be reordered: the first bytes of all samples, then the second ones, and so on."""

CUT_MIN_BYTES: Final = 48
"""A shorter buffer is not cut: its entry in the table would cost more than it saves."""

COLUMNS_MAX: Final = 4096
TRIAL_BYTES: Final = 16 * limits.KIB
BATCHES_PER_TRIAL: Final = 16
"""Batches for which the width that was chosen for a channel is kept before it is chosen anew."""

MAX_RATIO: Final = 0.97
"""A reordered column is used where it compresses to less than this share: reordering takes time at each read."""

GOOD_RATIO: Final = 0.8
"""A width that compresses to less than this share is taken without trying others."""

_trial_codec: Final = pa.Codec("zstd", 1)


class Cut(NamedTuple):
    """A sample buffer inside a value."""

    start: int
    size: int
    channel: int


class ByteColumn(NamedTuple):
    """Buffers of one channel as they are stored, and the width by which their bytes are reordered."""

    data: bytes
    width: int


def find_buffers(raw: bytes) -> list[Cut]:
    """The sample buffers in a burst, in order. None are found in what is no burst, or one of small messages."""
    try:
        items = scan_pb2.Burst.FromString(raw).data
    except DecodeError:
        return []
    if len(items) * CUT_MIN_BYTES > len(raw):
        return []
    return list(_cuts(raw, items))


def _cuts(raw: bytes, items: Sequence[scan_pb2.Item]) -> Iterator[Cut]:
    """Walks over the items of a burst. The buffer is the last field of its message, so it ends where the item ends."""
    offset, end = 0, len(raw)
    for item in items:
        if offset >= end or raw[offset] != message_tags.BURST_DATA:
            return
        size, shift, offset = 0, 0, offset + 1
        while offset < end:
            size |= (raw[offset] & 0x7F) << shift
            shift += 7
            offset += 1
            if raw[offset - 1] < 0x80:
                break
        offset += size
        kind = item.WhichOneof("data")
        if kind == "timestamped_data":
            message: scan_pb2.Timestamped | scan_pb2.Periodic = item.timestamped_data
        elif kind == "periodic_data":
            message = item.periodic_data
        else:
            continue
        buffer_size = len(message.buffer)
        if CUT_MIN_BYTES <= buffer_size <= size and offset <= end:
            yield Cut(offset - buffer_size, buffer_size, message.channel_id)


class WidthChooser:
    """Chooses for each channel the width by which its bytes are reordered, by trying, and anew now and then."""

    def __init__(self) -> None:
        self._widths: dict[int, int] = {}
        self._batches = 0

    def next_batch(self) -> None:
        """Counts a batch, and forgets all widths after some batches."""
        self._batches += 1
        if self._batches % BATCHES_PER_TRIAL == 0:
            self._widths.clear()

    def width_for(self, channel: int, data: bytes) -> int:
        """The width for a channel; `data` is what it is chosen by."""
        width = self._widths.get(channel)
        if width is None:
            width = self._widths[channel] = _best_width(data[:TRIAL_BYTES])
        return width


def _best_width(data: bytes) -> int:
    unsplit_size = len(_trial_codec.compress(data, asbytes=True))
    best_size, best_width = unsplit_size * MAX_RATIO, UNSPLIT
    for width in WIDTHS:
        size = len(_trial_codec.compress(split_bytes(data, width), asbytes=True))
        if size < best_size:
            best_size, best_width = size, width
        if best_size < unsplit_size * GOOD_RATIO:
            break
    return best_width


def split_bytes(data: bytes, width: int) -> bytes:
    """The first bytes of all samples of this width, then their second bytes, and so on; then what is left."""
    if width == UNSPLIT:
        return data
    whole = len(data) // width * width
    table = np.frombuffer(data, np.uint8, whole).reshape(-1, width)
    return table.T.tobytes() + data[whole:]


def join_bytes(data: bytes, width: int) -> bytes:
    """Undoes `split_bytes`."""
    if width == UNSPLIT:
        return data
    whole = len(data) // width * width
    table = np.frombuffer(data, np.uint8, whole).reshape(width, -1)
    return table.T.tobytes() + data[whole:]


class SplitValues(NamedTuple):
    """Values with their sample buffers cut out: columns of buffers, the rest, and a table of the cuts."""

    rest: bytes
    columns: list[ByteColumn]
    counts: U32
    """Number of cuts in each value."""
    gaps: U32
    """Bytes of the rest before each cut, since the cut before it or the start of the value."""
    sizes: U32
    """Bytes of each cut."""
    column_indices: U32
    """The column of each cut."""


def split_values(values: Sequence[tuple[bytes, bool]], widths: WidthChooser) -> SplitValues:
    """Cuts the sample buffers out of values, each of which comes with whether it is a burst."""
    widths.next_batch()
    rest: list[bytes] = []
    buffers: dict[int, list[bytes]] = {}
    order: dict[int, int] = {}
    counts, gaps, sizes, column_indices = [], [], [], []
    for value, is_burst in values:
        end = count = 0
        for cut in find_buffers(value) if is_burst else ():
            if cut.channel not in order and len(order) == COLUMNS_MAX:
                continue
            column_indices.append(order.setdefault(cut.channel, len(order)))
            rest.append(value[end : cut.start])
            gaps.append(cut.start - end)
            sizes.append(cut.size)
            end = cut.start + cut.size
            buffers.setdefault(cut.channel, []).append(value[cut.start : end])
            count += 1
        rest.append(value[end:] if end else value)
        counts.append(count)
    columns = []
    for channel in order:
        data = b"".join(buffers[channel])
        width = widths.width_for(channel, data)
        columns.append(ByteColumn(split_bytes(data, width), width))
    table = (np.array(numbers, "<u4") for numbers in (counts, gaps, sizes, column_indices))
    return SplitValues(b"".join(rest), columns, *table)


def join_values(split: SplitValues, lengths: Sequence[int]) -> list[bytes]:
    """The values again, given their lengths. Raises ValueError where the numbers do not add up."""
    if any(column.width not in (UNSPLIT, *WIDTHS) for column in split.columns):
        raise ValueError("a column has samples of a width that there is not")
    columns = [memoryview(join_bytes(column.data, column.width)) for column in split.columns]
    _check(split, lengths)
    rest, offset = memoryview(split.rest), 0
    column_offsets = [0] * len(columns)
    cuts = iter(zip(split.gaps.tolist(), split.sizes.tolist(), split.column_indices.tolist(), strict=True))
    values = []
    for count, length in zip(split.counts.tolist(), lengths, strict=True):
        if not count:
            values.append(bytes(rest[offset : offset + length]))
            offset += length
            continue
        parts: list[memoryview] = []
        remaining = length
        for _ in range(count):
            gap, size, column = next(cuts)
            parts.append(rest[offset : offset + gap])
            offset += gap
            start = column_offsets[column]
            column_offsets[column] = start + size
            parts.append(columns[column][start : start + size])
            remaining -= gap + size
        if remaining < 0:
            raise ValueError("a value is shorter than what was cut from it")
        parts.append(rest[offset : offset + remaining])
        offset += remaining
        values.append(b"".join(parts))
    return values


def _check(split: SplitValues, lengths: Sequence[int]) -> None:
    """Refuses numbers with which a slice would go past the end of its bytes: Python makes such a slice shorter."""
    cut_count = int(split.counts.sum(dtype=np.uint64))
    table_lengths = (len(split.gaps), len(split.sizes), len(split.column_indices))
    if len(split.counts) != len(lengths) or any(length != cut_count for length in table_lengths):
        raise ValueError("the numbers of cuts do not agree")
    if cut_count and int(split.column_indices.max()) >= len(split.columns):
        raise ValueError("a cut is of a column that there is not")
    column_sizes = np.bincount(split.column_indices, split.sizes, minlength=len(split.columns))
    if column_sizes.tolist() != [len(column.data) for column in split.columns]:
        raise ValueError("columns are not as long as what was cut")
    if sum(lengths) != len(split.rest) + int(split.sizes.sum(dtype=np.uint64)):
        raise ValueError("the lengths of values do not add up")
