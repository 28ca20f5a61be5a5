"""Samples of many messages to columns, all at once. Checks every count against the bytes that are there."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from rta_wire import errors, limits
from rta_wire.arrays import I64, U32, Array, Indices
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import layout as codec_layout
from rta_wire.codec.protobuf import varint

TypedColumns = tuple[codec_layout.SampleType, "SampleColumns"]

_SAFE: Final = float(limits.TIME_NS_MAX // 2)
"""Below this a bound in doubles can't hide an overflow: rounding is far smaller than what is left."""


class NonCanonicalBurst(Exception):
    """A burst is not laid out the way protobuf writes it."""


class SampleColumns(NamedTuple):
    """Samples of one type. Run `i` is the samples `offsets[i]` to `offsets[i + 1]`, all of `channels[i]`."""

    channels: U32
    offsets: I64
    times_ns: I64
    values: Array

    def rows(self) -> U32:
        """The channel of each sample: with times and values the long form."""
        return np.repeat(self.channels, np.diff(self.offsets))

    def by_channel(self) -> dict[int, tuple[I64, Array]]:
        """Times and values of each channel, in the order in which they came."""
        found: dict[int, list[slice]] = {}
        for channel, first, last in zip(
            self.channels.tolist(), self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True
        ):
            found.setdefault(channel, []).append(slice(first, last))
        return {
            channel: (
                np.concatenate([self.times_ns[part] for part in parts]),
                np.concatenate([self.values[part] for part in parts]),
            )
            for channel, parts in sorted(found.items())
        }


def join(parts: Sequence[SampleColumns]) -> SampleColumns:
    """Columns one after another."""
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
    """One run per message, none of them empty."""

    bursts: Sequence[int]
    channels: U32
    codes: Indices
    counts: I64
    buffers: Sequence[bytes]


def decode_timestamped(
    found: Sequence[tuple[int, int, int, int, bytes, bytes]], labels: Sequence[str], layouts: codec_layout.Plan
) -> Iterator[TypedColumns]:
    """Samples with deltas."""
    bursts, ids, starts, scales, deltas, buffers = zip(*found, strict=True)
    runs = _runs(bursts, ids, buffers, labels, layouts)
    stamps = _Stamps(np.array(starts, np.int64), np.array(scales, np.int64), runs, labels)
    ends = np.cumsum(runs.counts)
    times = np.empty(ends[-1], np.int64)
    first = 0
    # In parts that stay near the processor: memory that was never used before costs more than the arithmetic.
    while first < len(deltas):
        begin = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, begin + _PART_SAMPLES, side="right")))
        stamps.fill(times[begin : ends[last - 1]], deltas, first, last)
        first = last
    return _typed(runs, times, layouts)


class _Stamps(NamedTuple):
    """What the times of runs are made of."""

    start_ns: I64
    scales: I64
    runs: "_Runs"
    labels: Sequence[str]

    def fill(self, times: I64, deltas: Sequence[bytes], first: int, last: int) -> None:
        """The times of some runs, from their deltas."""
        counts = self.runs.counts[first:last]
        steps, most = _steps(deltas[first:last], counts, first, self)
        some = np.flatnonzero(counts)
        if not len(some):
            return
        firsts = (np.cumsum(counts) - counts)[some]
        start_ns, scales = self.start_ns[first:last], self.scales[first:last]
        for spot in np.flatnonzero(steps[firsts]).tolist():
            raise self.bad(first + int(some[spot]), f"starts with the delta {steps[firsts[spot]]}, not 0")
        # A bound is enough for nearly all runs; the rest are added up exactly.
        bound = np.abs(scales.astype(np.float64)) * counts * most + np.abs(start_ns.astype(np.float64))
        for run in np.flatnonzero(bound > _SAFE).tolist():
            self._check_exactly(first + run, steps[firsts[np.searchsorted(some, run)] :][: counts[run]])
        np.multiply(steps, np.repeat(scales, counts), out=times)
        # What a run starts with takes the sum from the end of the run before it to its own start, modulo 2^64.
        sums = start_ns[some] + np.add.reduceat(times, firsts)
        times[firsts] = start_ns[some]
        times[firsts[1:]] -= sums[:-1]
        np.cumsum(times, out=times)

    def _check_exactly(self, run: int, steps: I64) -> None:
        time, scale = int(self.start_ns[run]), int(self.scales[run])
        for step in steps.tolist():
            time += step * scale
            if not limits.TIME_NS_MIN <= time <= limits.TIME_NS_MAX:
                raise self.bad(run, "has a time that does not fit 64 bits")

    def bad(self, run: int, reason: str) -> errors.BadBurst:
        return codec_burst.bad_burst(self.labels[self.runs.bursts[run]], f"channel {self.runs.channels[run]} {reason}")


_PART_SAMPLES: Final = 32_768


def _runs(
    bursts: Sequence[int],
    ids: Sequence[int],
    buffers: Sequence[bytes],
    labels: Sequence[str],
    layouts: codec_layout.Plan,
) -> _Runs:
    channels = np.array(ids, np.uint32)
    codes = layouts.codes(channels)
    widths = np.array([layout.type.dtype.itemsize for layout in layouts.layouts])[codes]
    sizes = np.array([len(buffer) for buffer in buffers], np.int64)
    for run in np.flatnonzero(sizes % widths).tolist():
        raise codec_burst.bad_burst(
            labels[bursts[run]],
            f"{sizes[run]} bytes of channel {ids[run]} are not whole samples of {widths[run]} bytes",
        )
    return _Runs(bursts, channels, codes, sizes // widths, buffers)


def _steps(deltas: Sequence[bytes], counts: I64, first: int, stamps: "_Stamps") -> tuple[I64, float]:
    """The deltas of some runs side by side, as many in each as it has samples, and the largest of them."""
    data = np.frombuffer(b"".join(deltas), np.uint8)
    sizes = np.array([len(part) for part in deltas], np.int64)
    most = float(data.max(initial=0))
    if most < 0x80 and np.array_equal(sizes, counts):
        return data.astype(np.int64), most
    found = varint.decode(data)
    if found is None:
        raise NonCanonicalBurst
    values, ends = found
    for run in np.flatnonzero(_counted(sizes, ends) != counts).tolist():
        raise stamps.bad(first + run, f"has {counts[run]} samples and not as many deltas")
    steps = values.view(np.int64)
    return steps, float(max(abs(int(steps.max(initial=0))), abs(int(steps.min(initial=0)))))


def _counted(sizes: I64, ends: I64) -> I64:
    """How many numbers end in each of the parts of so many bytes; -1 where a part ends inside a number."""
    stops = np.cumsum(sizes)
    reached = np.searchsorted(ends, stops, side="right")
    whole = np.r_[0, ends][reached] == stops
    return np.where(whole, np.diff(reached, prepend=0), -1)


def decode_periodic(
    found: Sequence[tuple[int, int, int, int, int, bytes]], labels: Sequence[str], layouts: codec_layout.Plan
) -> Iterator[TypedColumns]:
    """Samples at a constant interval."""
    bursts, ids, starts, intervals, claimed, buffers = zip(*found, strict=True)
    runs = _runs(bursts, ids, buffers, labels, layouts)
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
    return _typed(runs, times, layouts)


def _typed(runs: _Runs, times: I64, layouts: codec_layout.Plan) -> Iterator[TypedColumns]:
    """Runs by the type of their samples."""
    types = [layouts.layouts[code].type for code in runs.codes.tolist()]
    for kind in dict.fromkeys(types):
        mask = np.array([one is kind for one in types]) & (runs.counts > 0)
        if not mask.any():
            continue
        lens = runs.counts[mask]
        values = np.frombuffer(b"".join([runs.buffers[run] for run in np.flatnonzero(mask).tolist()]), kind.dtype)
        some = times if len(values) == len(times) else times[np.repeat(mask, runs.counts)]
        yield kind, SampleColumns(runs.channels[mask], _offsets(lens), some, values)


def decode_rows(
    found: Sequence[tuple[int, int, bytes, bytes]], labels: Sequence[str], layouts: codec_layout.Plan
) -> Iterator[TypedColumns]:
    """One sample of several channels at a time: sorted by channel, so that runs are long again."""
    bursts, stamps, packed, buffers = zip(*found, strict=True)
    decoded = varint.decode(np.frombuffer(b"".join(packed), np.uint8))
    if decoded is None:
        raise NonCanonicalBurst
    values, ends = decoded
    counts = _counted(np.array([len(part) for part in packed], np.int64), ends)
    for row in np.flatnonzero(counts < 0).tolist():
        raise codec_burst.bad_burst(labels[bursts[row]], f"the channels of a row at {stamps[row]} ns are cut")
    # Protobuf keeps the low 32 bits of a longer number.
    channels = values.astype(np.uint32)
    codes = layouts.codes(channels)
    widths = np.array([layout.type.dtype.itemsize for layout in layouts.layouts])[codes]
    sizes = np.diff(_offsets(widths)[_offsets(counts)])
    held = np.array([len(buffer) for buffer in buffers], np.int64)
    for row in np.flatnonzero(sizes != held).tolist():
        raise codec_burst.bad_burst(
            labels[bursts[row]], f"a row at {stamps[row]} ns holds {held[row]} bytes for channels of {sizes[row]}"
        )
    times = np.repeat(np.array(stamps, np.int64), counts)
    data = np.frombuffer(b"".join(buffers), np.uint8)
    spots = _offsets(widths)[:-1]
    types = [layout.type for layout in layouts.layouts]
    for kind in dict.fromkeys(types):
        chosen = np.flatnonzero(np.array([one is kind for one in types])[codes])
        if not len(chosen):
            continue
        chosen = chosen[np.argsort(channels[chosen], kind="stable")]
        cells = data[spots[chosen][:, None] + np.arange(kind.dtype.itemsize)]
        ordered = channels[chosen]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        offsets = np.r_[starts, len(chosen)]
        yield kind, SampleColumns(ordered[starts], offsets, times[chosen], cells.view(kind.dtype).reshape(-1))
