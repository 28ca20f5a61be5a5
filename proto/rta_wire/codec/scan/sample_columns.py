"""Decodes samples and row data of many messages to columns, all at once.

Checks every count in a message against its bytes.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from rta_wire import errors, limits
from rta_wire.arrays import I64, U32, Array, Indices
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import layout as codec_layout
from rta_wire.codec.protobuf import varint
from rta_wire.codec.scan.timestamped_fields import TimestampedFields

TypedColumns = tuple[codec_layout.SampleType, "SampleColumns"]

_SAFE_BOUND: Final = float(limits.TIME_NS_MAX // 2)
"""Where a bound in doubles is below this there is no overflow: rounding errors are far smaller than the rest."""


class NonCanonicalBurst(Exception):
    """A burst is not encoded the way protobuf writes it."""


class SampleColumns(NamedTuple):
    """Samples of one type. Run `i` is the samples `offsets[i]` to `offsets[i + 1]`, all of `channels[i]`."""

    channels: U32
    offsets: I64
    times_ns: I64
    values: Array

    def rows(self) -> U32:
        """The channel of each sample, which makes the long form with `times_ns` and `values`."""
        return np.repeat(self.channels, np.diff(self.offsets))

    def grouped(self) -> "SampleColumns":
        """The same samples with one run for each channel, channels ascending; those of each in the order in which they
        came."""
        if (self.channels[1:] > self.channels[:-1]).all():
            return self
        order = np.argsort(self.channels, kind="stable")
        lens = np.diff(self.offsets)[order]
        offsets = _offsets(lens)
        index = np.repeat(self.offsets[:-1][order] - offsets[:-1], lens) + np.arange(offsets[-1])
        channels = self.channels[order]
        firsts = np.flatnonzero(np.r_[True, channels[1:] != channels[:-1]])
        return SampleColumns(
            channels[firsts], np.r_[offsets[firsts], offsets[-1]], self.times_ns[index], self.values[index]
        )

    def by_channel(self) -> dict[int, tuple[I64, Array]]:
        """Times and values of each channel, in the order in which they came."""
        grouped = self.grouped()
        runs = map(slice, grouped.offsets[:-1].tolist(), grouped.offsets[1:].tolist())
        return {
            channel: (grouped.times_ns[run], grouped.values[run])
            for channel, run in zip(grouped.channels.tolist(), runs, strict=True)
        }


def join(parts: Sequence[SampleColumns]) -> SampleColumns:
    """Columns of one type, one after another."""
    if len(parts) == 1:
        return parts[0]
    lens = np.concatenate([np.diff(part.offsets) for part in parts])
    return SampleColumns(
        np.concatenate([part.channels for part in parts]),
        _offsets(lens),
        np.concatenate([part.times_ns for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def _offsets(lens: I64) -> I64:
    offsets = np.zeros(len(lens) + 1, np.int64)
    np.cumsum(lens, out=offsets[1:])
    return offsets


class _Runs(NamedTuple):
    """For each message its burst, its channel, the code of its layout, its number of samples and the size of its
    buffer; and all buffers, one after another."""

    bursts: I64
    channels: U32
    codes: Indices
    counts: I64
    sizes: I64
    data: bytes


def decode_timestamped(
    messages: TimestampedFields, labels: Sequence[str], layouts: codec_layout.Plan
) -> Iterator[TypedColumns]:
    """Samples of timestamped messages."""
    runs = _runs(
        messages.bursts, messages.channels, messages.buffer_sizes, messages.buffers, labels=labels, layouts=layouts
    )
    stamps = _DeltaTimes(messages.start_ns, messages.scales, messages.delta_sizes, runs, labels)
    deltas, places = memoryview(messages.deltas), _offsets(messages.delta_sizes)
    ends = np.cumsum(runs.counts)
    times = np.empty(ends[-1], np.int64)
    first = 0
    # In parts that fit the cache: memory that was never used before costs more than the arithmetic.
    while first < len(ends):
        begin = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, begin + _PART_SAMPLES, side="right")))
        stamps.fill(times[begin : ends[last - 1]], deltas[places[first] : places[last]], first, last)
        first = last
    return _by_type(runs, times, layouts)


class _DeltaTimes(NamedTuple):
    """Start times and scales of runs, from which their times are made, and the sizes of their deltas."""

    start_ns: I64
    scales: I64
    delta_sizes: I64
    runs: _Runs
    labels: Sequence[str]

    def fill(self, times: I64, deltas: memoryview, first: int, last: int) -> None:
        """Sets the times of the runs from `first` up to `last`, from their packed deltas."""
        counts = self.runs.counts[first:last]
        steps, max_step = _decode_steps(deltas, counts, first, self)
        nonempty = np.flatnonzero(counts)
        if not len(nonempty):
            return
        firsts = (np.cumsum(counts) - counts)[nonempty]
        start_ns, scales = self.start_ns[first:last], self.scales[first:last]
        for index in np.flatnonzero(steps[firsts]).tolist():
            raise self.bad(first + int(nonempty[index]), f"starts with the delta {steps[firsts[index]]}, not 0")
        # A bound shows for nearly all runs that no time overflows; the others are added up exactly.
        bound = np.abs(scales.astype(np.float64)) * counts * max_step + np.abs(start_ns.astype(np.float64))
        for run in np.flatnonzero(bound > _SAFE_BOUND).tolist():
            self._check_exactly(first + run, steps[firsts[np.searchsorted(nonempty, run)] :][: counts[run]])
        np.multiply(steps, np.repeat(scales, counts), out=times)
        # The first value of a run is the difference between its start and the end of the run before it, modulo 2^64.
        sums = start_ns[nonempty] + np.add.reduceat(times, firsts)
        times[firsts] = start_ns[nonempty]
        times[firsts[1:]] -= sums[:-1]
        np.cumsum(times, out=times)

    def _check_exactly(self, run: int, steps: I64) -> None:
        time, scale = int(self.start_ns[run]), int(self.scales[run])
        for step in steps.tolist():
            time += step * scale
            if not limits.TIME_NS_MIN <= time <= limits.TIME_NS_MAX:
                raise self.bad(run, "has a time that does not fit 64 bits")

    def bad(self, run: int, reason: str) -> errors.BadBurst:
        """The error for a run."""
        return codec_burst.bad_burst(self.labels[self.runs.bursts[run]], f"channel {self.runs.channels[run]} {reason}")


_PART_SAMPLES: Final = 32_768


def _runs(
    bursts: I64, channels: U32, sizes: I64, data: bytes, *, labels: Sequence[str], layouts: codec_layout.Plan
) -> _Runs:
    codes = layouts.codes(channels)
    widths = np.array([layout.type.dtype.itemsize for layout in layouts.layouts])[codes]
    for run in np.flatnonzero(sizes % widths).tolist():
        raise codec_burst.bad_burst(
            labels[bursts[run]],
            f"{sizes[run]} bytes of channel {channels[run]} are not whole samples of {widths[run]} bytes",
        )
    return _Runs(bursts, channels, codes, sizes // widths, sizes, data)


def _decode_steps(deltas: memoryview, counts: I64, first: int, stamps: _DeltaTimes) -> tuple[I64, float]:
    """The deltas of some runs side by side, as many in each as it has samples, and the largest of them."""
    data = np.frombuffer(deltas, np.uint8)
    sizes = stamps.delta_sizes[first : first + len(counts)]
    max_byte = float(data.max(initial=0))
    if max_byte < 0x80 and np.array_equal(sizes, counts):
        return data.astype(np.int64), max_byte
    decoded = varint.decode(data)
    if decoded is None:
        raise NonCanonicalBurst
    values, ends = decoded
    for run in np.flatnonzero(_count_varints(sizes, ends) != counts).tolist():
        raise stamps.bad(first + run, f"has {counts[run]} samples and not as many deltas")
    steps = values.view(np.int64)
    return steps, float(max(abs(int(steps.max(initial=0))), abs(int(steps.min(initial=0)))))


def _count_varints(sizes: I64, ends: I64) -> I64:
    """For parts of these sizes how many varints each holds, given where varints end; -1 where a part cuts one."""
    stops = np.cumsum(sizes)
    counts = np.searchsorted(ends, stops, side="right")
    is_whole = np.r_[0, ends][counts] == stops
    return np.where(is_whole, np.diff(counts, prepend=0), -1)


def decode_periodic(
    messages: Sequence[tuple[int, int, int, int, int, bytes]], labels: Sequence[str], layouts: codec_layout.Plan
) -> Iterator[TypedColumns]:
    """Samples of periodic messages, given as burst, channel, start, interval, number of samples and buffer."""
    bursts, ids, starts, intervals, claimed, buffers = zip(*messages, strict=True)
    sizes = np.array([len(buffer) for buffer in buffers], np.int64)
    runs = _runs(np.array(bursts), np.array(ids, np.uint32), sizes, b"".join(buffers), labels=labels, layouts=layouts)
    for burst, channel, start, interval, (claim, count) in zip(
        bursts, ids, starts, intervals, zip(claimed, runs.counts.tolist(), strict=True), strict=True
    ):
        if claim != count:
            raise codec_burst.bad_burst(labels[burst], f"channel {channel} claims {claim} samples and holds {count}")
        if count and not limits.TIME_NS_MIN <= start + interval * (count - 1) <= limits.TIME_NS_MAX:
            raise codec_burst.bad_burst(labels[burst], f"a time of channel {channel} does not fit 64 bits")
    index = np.arange(runs.counts.sum()) - np.repeat(_offsets(runs.counts)[:-1], runs.counts)
    times = index * np.repeat(np.array(intervals, np.int64), runs.counts)
    times += np.repeat(np.array(starts, np.int64), runs.counts)
    return _by_type(runs, times, layouts)


def _by_type(runs: _Runs, times: I64, layouts: codec_layout.Plan) -> Iterator[TypedColumns]:
    """Columns of the runs of each type, without empty runs."""
    types = [layout.type for layout in layouts.layouts]
    type_numbers = np.array([types.index(sample_type) for sample_type in types])[runs.codes]
    numbers, firsts = np.unique(type_numbers, return_index=True)
    for number in numbers[np.argsort(firsts)].tolist():
        sample_type = types[number]
        chosen = (type_numbers == number) & (runs.counts > 0)
        if not chosen.any():
            continue
        lens = runs.counts[chosen]
        data = runs.data
        if not chosen.all():
            places = _offsets(runs.sizes).tolist()
            data = b"".join([data[places[run] : places[run + 1]] for run in np.flatnonzero(chosen).tolist()])
        values = np.frombuffer(data, sample_type.dtype)
        chosen_times = times if len(values) == len(times) else times[np.repeat(chosen, runs.counts)]
        yield sample_type, SampleColumns(runs.channels[chosen], _offsets(lens), chosen_times, values)


def decode_rows(
    messages: Sequence[tuple[int, int, bytes, bytes]], labels: Sequence[str], layouts: codec_layout.Plan
) -> Iterator[TypedColumns]:
    """Samples of row messages, given as burst, time, packed channels and buffer. Sorted by channel into long runs."""
    bursts, row_times, packed_ids, buffers = zip(*messages, strict=True)
    decoded = varint.decode(np.frombuffer(b"".join(packed_ids), np.uint8))
    if decoded is None:
        raise NonCanonicalBurst
    ids, ends = decoded
    counts = _count_varints(np.array([len(part) for part in packed_ids], np.int64), ends)
    for row in np.flatnonzero(counts < 0).tolist():
        raise codec_burst.bad_burst(labels[bursts[row]], f"the channels of a row at {row_times[row]} ns are cut")
    # Protobuf keeps the low 32 bits of a longer number.
    channels = ids.astype(np.uint32)
    codes = layouts.codes(channels)
    widths = np.array([layout.type.dtype.itemsize for layout in layouts.layouts])[codes]
    sizes = np.diff(_offsets(widths)[_offsets(counts)])
    buffer_sizes = np.array([len(buffer) for buffer in buffers], np.int64)
    for row in np.flatnonzero(sizes != buffer_sizes).tolist():
        raise codec_burst.bad_burst(
            labels[bursts[row]],
            f"a row at {row_times[row]} ns holds {buffer_sizes[row]} bytes for channels of {sizes[row]}",
        )
    times = np.repeat(np.array(row_times, np.int64), counts)
    data = np.frombuffer(b"".join(buffers), np.uint8)
    sample_offsets = _offsets(widths)[:-1]
    types = [layout.type for layout in layouts.layouts]
    for sample_type in dict.fromkeys(types):
        dtype = sample_type.dtype
        chosen = np.flatnonzero(np.array([layout_type is sample_type for layout_type in types])[codes])
        if not len(chosen):
            continue
        chosen = chosen[np.argsort(channels[chosen], kind="stable")]
        samples = data[sample_offsets[chosen][:, None] + np.arange(dtype.itemsize)]
        ordered = channels[chosen]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        offsets = np.r_[starts, len(chosen)]
        yield sample_type, SampleColumns(ordered[starts], offsets, times[chosen], samples.view(dtype).reshape(-1))
