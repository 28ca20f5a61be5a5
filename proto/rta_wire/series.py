"""Samples of many messages to columns, all at once. Checks every count against the bytes that are there."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from rta_wire import errors, limits, plan, varint

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
Array = npt.NDArray[Any]
Typed = tuple[plan.SampleType, "Columns"]

_SAFE: Final = float(limits.TIME_NS_MAX // 2)
"""Below this a bound in doubles can't hide an overflow: rounding is far smaller than what is left."""


class Unusual(Exception):
    """A burst is not laid out the way protobuf writes it."""


def bad(label: str | None, reason: str) -> errors.BadBurst:
    """An error that says which entry it was, where that is known."""
    if label is None:
        return errors.BadBurst(reason=reason)
    return errors.BadBurst(reason=f"entry {label}: {reason}", entry=label)


class Columns(NamedTuple):
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


def join(parts: Sequence[Columns]) -> Columns:
    """Columns one after another."""
    if len(parts) == 1:
        return parts[0]
    lens = np.concatenate([np.diff(part.offsets) for part in parts])
    return Columns(
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
    codes: npt.NDArray[np.intp]
    counts: I64
    buffers: Sequence[bytes]


def timestamped(
    found: Sequence[tuple[int, int, int, int, bytes, bytes]], labels: Sequence[str], layouts: plan.Plan
) -> Iterator[Typed]:
    """Samples with deltas."""
    bursts, ids, starts, scales, deltas, buffers = zip(*found, strict=True)
    runs = _runs(bursts, ids, buffers, labels, layouts)
    steps = _steps(deltas, runs, labels)
    some = np.flatnonzero(runs.counts)
    firsts = np.cumsum(runs.counts)[some] - runs.counts[some]
    wrong = np.flatnonzero(steps[firsts])
    if len(wrong):
        run = some[wrong[0]]
        raise bad(labels[bursts[run]], f"the first delta of channel {ids[run]} is {steps[firsts[wrong[0]]]}, not 0")
    start_ns, scale = np.array(starts, np.int64), np.array(scales, np.int64)
    times = steps * np.repeat(scale, runs.counts)
    np.cumsum(times, out=times)
    # Wraps around where the sum up to a run does, which the subtraction takes back.
    times += np.repeat(start_ns[some] - times[firsts], runs.counts[some])
    _check_range(steps, start_ns, scale, runs, labels)
    return _typed(runs, times, layouts)


def _runs(
    bursts: Sequence[int],
    ids: Sequence[int],
    buffers: Sequence[bytes],
    labels: Sequence[str],
    layouts: plan.Plan,
) -> _Runs:
    channels = np.array(ids, np.uint32)
    codes = layouts.codes(channels)
    widths = np.array([layout.type.dtype.itemsize for layout in layouts.layouts])[codes]
    sizes = np.array([len(buffer) for buffer in buffers], np.int64)
    for run in np.flatnonzero(sizes % widths).tolist():
        raise bad(
            labels[bursts[run]],
            f"{sizes[run]} bytes of channel {ids[run]} are not whole samples of {widths[run]} bytes",
        )
    return _Runs(bursts, channels, codes, sizes // widths, buffers)


def _steps(deltas: Sequence[bytes], runs: _Runs, labels: Sequence[str]) -> I64:
    """All deltas side by side, as many in each run as it has samples."""
    data = np.frombuffer(b"".join(deltas), np.uint8)
    sizes = np.array([len(part) for part in deltas], np.int64)
    if np.array_equal(sizes, runs.counts) and data.max(initial=0) < 0x80:
        return data.astype(np.int64)
    found = varint.decode(data)
    if found is None:
        raise Unusual
    values, ends = found
    stops = np.cumsum(sizes)
    reached = np.searchsorted(ends, stops, side="right")
    counts = np.diff(reached, prepend=0)
    cut = (stops > 0) & (ends[np.maximum(reached, 1) - 1] != stops) if len(ends) else np.zeros(len(stops), np.bool_)
    for run in np.flatnonzero(cut | (counts != runs.counts)).tolist():
        raise bad(
            labels[runs.bursts[run]],
            f"{runs.counts[run]} samples of channel {runs.channels[run]} do not have as many deltas",
        )
    return values.view(np.int64)


def _check_range(steps: I64, start_ns: I64, scale: I64, runs: _Runs, labels: Sequence[str]) -> None:
    """Every time must fit 64 bits. A bound is enough for nearly all runs; the rest are added up exactly."""
    most = float(max(abs(int(steps.max(initial=0))), abs(int(steps.min(initial=0)))))
    bound = np.abs(scale.astype(np.float64)) * runs.counts * most + np.abs(start_ns.astype(np.float64))
    offsets = _offsets(runs.counts)
    for run in np.flatnonzero(bound > _SAFE).tolist():
        time, factor = int(start_ns[run]), int(scale[run])
        for step in steps[offsets[run] : offsets[run + 1]].tolist():
            time += step * factor
            if not limits.TIME_NS_MIN <= time <= limits.TIME_NS_MAX:
                raise bad(labels[runs.bursts[run]], f"a time of channel {runs.channels[run]} does not fit 64 bits")


def periodic(
    found: Sequence[tuple[int, int, int, int, int, bytes]], labels: Sequence[str], layouts: plan.Plan
) -> Iterator[Typed]:
    """Samples at a constant interval."""
    bursts, ids, starts, intervals, claimed, buffers = zip(*found, strict=True)
    runs = _runs(bursts, ids, buffers, labels, layouts)
    for burst, channel, start, interval, (claim, count) in zip(
        bursts, ids, starts, intervals, zip(claimed, runs.counts.tolist(), strict=True), strict=True
    ):
        if claim != count:
            raise bad(labels[burst], f"channel {channel} claims {claim} samples and holds {count}")
        if count and not limits.TIME_NS_MIN <= start + interval * (count - 1) <= limits.TIME_NS_MAX:
            raise bad(labels[burst], f"a time of channel {channel} does not fit 64 bits")
    index = np.arange(runs.counts.sum()) - np.repeat(_offsets(runs.counts)[:-1], runs.counts)
    times = index * np.repeat(np.array(intervals, np.int64), runs.counts)
    times += np.repeat(np.array(starts, np.int64), runs.counts)
    return _typed(runs, times, layouts)


def _typed(runs: _Runs, times: I64, layouts: plan.Plan) -> Iterator[Typed]:
    """Runs by the type of their samples."""
    types = [layouts.layouts[code].type for code in runs.codes.tolist()]
    for kind in dict.fromkeys(types):
        mask = np.array([one is kind for one in types]) & (runs.counts > 0)
        if not mask.any():
            continue
        lens = runs.counts[mask]
        values = np.frombuffer(b"".join([runs.buffers[run] for run in np.flatnonzero(mask).tolist()]), kind.dtype)
        some = times if len(values) == len(times) else times[np.repeat(mask, runs.counts)]
        yield kind, Columns(runs.channels[mask], _offsets(lens), some, values)


def rows(found: Sequence[tuple[int, int, bytes, bytes]], labels: Sequence[str], layouts: plan.Plan) -> Iterator[Typed]:
    """One sample of several channels at a time: sorted by channel, so that runs are long again."""
    bursts, stamps, packed, buffers = zip(*found, strict=True)
    decoded = varint.decode(np.frombuffer(b"".join(packed), np.uint8))
    if decoded is None:
        raise Unusual
    values, ends = decoded
    stops = np.cumsum([len(part) for part in packed])
    reached = np.searchsorted(ends, stops, side="right")
    # Protobuf keeps the low 32 bits of a longer number.
    channels = values.astype(np.uint32)
    codes = layouts.codes(channels)
    widths = np.array([layout.type.dtype.itemsize for layout in layouts.layouts])[codes]
    sizes = np.diff(_offsets(widths)[reached], prepend=0)
    cut = (stops > 0) & (ends[np.maximum(reached, 1) - 1] != stops) if len(ends) else np.zeros(len(stops), np.bool_)
    held = np.array([len(buffer) for buffer in buffers], np.int64)
    for row in np.flatnonzero(cut | (sizes != held)).tolist():
        raise bad(
            labels[bursts[row]],
            f"a row at {stamps[row]} ns holds {held[row]} bytes for channels of {sizes[row]}",
        )
    times = np.repeat(np.array(stamps, np.int64), np.diff(reached, prepend=0))
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
        yield kind, Columns(ordered[starts], offsets, times[chosen], cells.view(kind.dtype).reshape(-1))
