"""Rows of files with samples: Arrow batches to columns, and the order in which samples stand in a file."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rta_wire import content_digest
from rta_wire.archive import message_table
from rta_wire.archive.selection import SampleFilter
from rta_wire.arrays import F64, I64, Array, Bools, Indices
from rta_wire.codec import columns as codec_columns
from rta_wire.codec import layout
from rta_wire.codec.scan.sample_columns import SampleColumns

WIDER_THAN_DOUBLE: Final = (layout.SampleType.INT64, layout.SampleType.UINT64)
_LONG_RUN: Final = 64
"""Samples of a run from which copying slices is faster than indexing."""

_SIGN: Final = np.uint64(1 << 31)
_MANTISSA: Final = np.uint64((1 << 23) - 1)
_FLOAT_NAN: Final = np.uint64(0xFF << 23)
_FLOAT_QUIET: Final = np.uint64(1 << 22)
_DOUBLE_NAN: Final = np.uint64(0x7FF << 52)
_MORE_DIGITS: Final = np.uint64(29)
"""Bits of IEEE 754 numbers: a double has that many more bits behind the point than a float."""


class ArchivedSamples(NamedTuple):
    """Samples in long form. `integers` has the digits of whole numbers of 64 bits, and which rows have them."""

    channels: I64
    times_ns: I64
    values: F64
    integers: content_digest.Int64Values | None = None
    has_integer: Bools | None = None
    """None: all rows have one, or none has."""

    def where(self, sample_filter: SampleFilter) -> "ArchivedSamples":
        """The samples that a filter wants."""
        mask = sample_filter.mask(self.channels, self.times_ns)
        return self if mask is None else self.take(np.flatnonzero(mask))

    def take(self, rows: Indices) -> "ArchivedSamples":
        """Some of the rows."""
        taken = self.channels[rows], self.times_ns[rows], self.values[rows]
        if self.integers is None:
            return ArchivedSamples(*taken)
        integers = content_digest.Int64Values(self.integers.low[rows], self.integers.negative[rows])
        return ArchivedSamples(*taken, integers, None if self.has_integer is None else self.has_integer[rows])

    def typed_values(self, sample_type: layout.SampleType) -> Array:
        """The values as a stream has them. Exact where the samples are of that type."""
        has_integers = self.integers is not None and (self.has_integer is None or bool(self.has_integer.all()))
        if sample_type in WIDER_THAN_DOUBLE and has_integers and self.integers is not None:
            return self.integers.low.view(sample_type.dtype)
        typed = codec_columns.cast_samples(self.values, sample_type)
        return _with_nan_bits(typed, self.values) if sample_type is layout.SampleType.FLOAT else typed

    def digest(self) -> content_digest.Digest:
        """Of all rows, as the digest of the stream is made."""
        if self.integers is None or self.has_integer is None:
            return content_digest.of_samples(self.channels, self.times_ns, self.values, self.integers)
        digests = []
        for mask in (self.has_integer, ~self.has_integer):
            rows = self.take(np.flatnonzero(mask))
            integers = rows.integers if mask is self.has_integer else None
            digests.append(content_digest.of_samples(rows.channels, rows.times_ns, rows.values, integers))
        return digests[0].sum_of(digests[1])


def columns(batch: pa.RecordBatch) -> ArchivedSamples:
    """The columns of a batch that has `schema.READ_COLUMNS`."""
    channels, times, values = (
        codec_columns.column(batch.column(name), name).values for name in ("channel", "time", "value")
    )
    integers = batch.column("integer")
    if integers.null_count == len(integers):
        return ArchivedSamples(channels, times, values)
    has_integer = None if not integers.null_count else integers.is_valid().to_numpy(zero_copy_only=False)
    return ArchivedSamples(channels, times, values, _int64_values(integers), has_integer)


def _int64_values(integers: Any) -> content_digest.Int64Values:
    """Whole numbers from decimals of 128 bits, which are two words of 64 bits each, the lower one first."""
    words = np.frombuffer(integers.buffers()[1], np.int64)[2 * integers.offset :][: 2 * len(integers)].reshape(-1, 2)
    return content_digest.Int64Values(np.ascontiguousarray(words[:, 0]).view(np.uint64), words[:, 1] < 0)


TypedPart = tuple[layout.Kind, layout.SampleType, SampleColumns]


def sort_chunk(parts: Sequence[TypedPart]) -> ArchivedSamples:
    """Samples as they stand in a file: by channel, then by kind of message, then in the order of the stream.

    `parts` are in the order of the stream. `rows_of_messages` finds the message of each row again.
    """
    kinds = np.concatenate([np.full(len(part.channels), message_table.KINDS.index(kind)) for kind, _, part in parts])
    channels = np.concatenate([part.channels for _, _, part in parts]).astype(np.int64)
    counts = np.concatenate([np.diff(part.offsets) for _, _, part in parts])
    starts = np.cumsum(counts) - counts
    order = np.argsort(channels * len(message_table.KINDS) + kinds, kind="stable")
    gather = _gather(starts[order], counts[order])
    times = gather([part.times_ns for _, _, part in parts])
    wide = [sample_type in WIDER_THAN_DOUBLE for _, sample_type, _ in parts]
    values = gather(
        [
            part.values.astype(np.float64) if is_wide else _doubles(part.values)
            for is_wide, (_, _, part) in zip(wide, parts, strict=True)
        ]
    )
    rows = np.repeat(channels[order], counts[order])
    if not any(wide):
        return ArchivedSamples(rows, times, values)
    low = gather(
        [
            part.values.view(np.uint64) if is_wide else np.zeros(len(part.values), np.uint64)
            for is_wide, (_, _, part) in zip(wide, parts, strict=True)
        ]
    )
    negative = gather(
        [
            part.values < 0 if is_wide else np.zeros(len(part.values), np.bool_)
            for is_wide, (_, _, part) in zip(wide, parts, strict=True)
        ]
    )
    has_integer = gather(
        [np.full(len(part.values), is_wide) for is_wide, (_, _, part) in zip(wide, parts, strict=True)]
    )
    integers = content_digest.Int64Values(low, negative)
    return ArchivedSamples(rows, times, values, integers, None if all(wide) else has_integer)


def _doubles(values: Array) -> F64:
    """Samples as doubles, of which each is found again. A processor sets a bit of some NaN that it makes wider."""
    wide: F64 = codec_columns.cast_samples(values, layout.SampleType.DOUBLE)
    if values.dtype == np.float32 and (is_nan := np.isnan(values)).any():
        bits = values[is_nan].view(np.uint32).astype(np.uint64)
        wide.view(np.uint64)[is_nan] = (
            (bits & _SIGN) << np.uint64(32) | _DOUBLE_NAN | (bits & _MANTISSA) << _MORE_DIGITS
        )
    return wide


def _with_nan_bits(narrow: Array, values: F64) -> Array:
    """Floats with the bits of the NaN that `_doubles` made wider. `narrow` is changed."""
    if (is_nan := np.isnan(values)).any():
        bits = values[is_nan].view(np.uint64)
        mantissa = bits >> _MORE_DIGITS & _MANTISSA
        # One that came from elsewhere may have no bits there, and would be infinite.
        found = bits >> np.uint64(32) & _SIGN | _FLOAT_NAN | np.where(mantissa == 0, _FLOAT_QUIET, mantissa)
        narrow.view(np.uint32)[is_nan] = found.astype(np.uint32)
    return narrow


def _gather(starts: I64, counts: I64) -> Any:
    """A function that joins arrays and puts runs of them into another order."""
    if len(starts) and counts.sum() >= _LONG_RUN * len(starts):
        slices = [slice(first, last) for first, last in zip(starts.tolist(), (starts + counts).tolist(), strict=True)]

        def by_slices(arrays: Sequence[Array]) -> Array:
            joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
            return np.concatenate([joined[run] for run in slices])

        return by_slices
    ends = np.cumsum(counts)
    index = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
    return lambda arrays: (arrays[0] if len(arrays) == 1 else np.concatenate(arrays))[index]


def rows_of_messages(kinds: Array, channels: I64, counts: I64, row_sets: I64, sets: Sequence[Sequence[int]]) -> I64:
    """The index of the message that each row of a chunk belongs to, from the messages in the order of the stream.

    The columns are those of `message_table.MessageTable`.
    """
    numbers = np.arange(len(kinds))
    single = row_sets < 0
    runs = [(channels[single], kinds[single].astype(np.int64), numbers[single], counts[single])]
    for index, row_channels in enumerate(sets):
        of_set = numbers[row_sets == index]
        width = len(row_channels)
        row_ids = np.tile(np.array(row_channels, np.int64), len(of_set))
        row_kinds = np.repeat(kinds[of_set].astype(np.int64), width)
        runs.append((row_ids, row_kinds, np.repeat(of_set, width), np.ones(len(of_set) * width, np.int64)))
    run_channels, run_kinds, run_messages, run_counts = (np.concatenate(column) for column in zip(*runs, strict=True))
    order = np.lexsort((run_messages, run_kinds, run_channels))
    return np.repeat(run_messages[order], run_counts[order])
