"""Samples of a block summed up in cells, so that an envelope with long steps needs no sample of it again. Pure.

A cell is a range of time of one channel. The cells of a block have one length, a power of two in nanoseconds, and begin
at multiples of it: steps that are multiples of that length are made of whole cells.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from rta_wire.arrays import F64, I64, U32, Bools
from rta_wire.codec.scan.sample_columns import SampleColumns

CELL_SAMPLES: Final = 64
"""About how many samples a cell stands for: cells take less than a byte for each sample then."""

LEVEL_MAX: Final = 62


class EnvelopeCells(NamedTuple):
    """The cells of a block, in any order. There may be several of one channel and time, which count together.

    `numbers` says when each begins, in lengths of `2 ** level` ns.
    """

    level: int
    channels: U32
    numbers: I64
    low: F64
    high: F64
    sum: F64
    samples: I64

    @property
    def size_bytes(self) -> int:
        return sum(column.nbytes for column in self[1:])

    def take(self, mask: Bools) -> "EnvelopeCells":
        """Some of the cells."""
        columns = {name: column[mask] for name, column in self._asdict().items() if name != "level"}
        return self._replace(**columns)


def level_of(samples: int, channels: int, span_ns: int) -> int:
    """The length of cells for a block with so many samples of so many channels in a range of time."""
    cells = max(samples // CELL_SAMPLES, channels, 1)
    return min(max((channels * span_ns // cells).bit_length() - 1, 0), LEVEL_MAX)


def summarize(parts: Sequence[SampleColumns]) -> EnvelopeCells | None:
    """The cells of all samples of a block. Values that are not finite count for nothing; None where no other is."""
    parts = [part for part in parts if len(part.times_ns)]
    if not parts:
        return None
    channels = np.unique(np.concatenate([part.channels for part in parts]))
    span_ns = max(int(part.times_ns.max()) for part in parts) - min(int(part.times_ns.min()) for part in parts)
    level = level_of(sum(len(part.times_ns) for part in parts), len(channels), span_ns)
    return join([cells for part in parts if (cells := _of_columns(part, level)) is not None])


def _of_columns(columns: SampleColumns, level: int) -> EnvelopeCells | None:
    values = columns.values.astype(np.float64, copy=False)
    times, channels = columns.times_ns, columns.rows()
    is_finite = np.isfinite(values)
    if not is_finite.all():
        values, times, channels = values[is_finite], times[is_finite], channels[is_finite]
    if not len(values):
        return None
    numbers = times >> level
    is_first = np.empty(len(numbers), np.bool_)
    is_first[0] = True
    np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
    is_first[1:] |= channels[1:] != channels[:-1]
    firsts = np.flatnonzero(is_first)
    return EnvelopeCells(
        level,
        channels[firsts],
        numbers[firsts],
        np.minimum.reduceat(values, firsts),
        np.maximum.reduceat(values, firsts),
        np.add.reduceat(values, firsts),
        np.diff(firsts, append=len(values)),
    )


def join(parts: Sequence[EnvelopeCells], level: int = 0) -> EnvelopeCells | None:
    """The cells of several blocks in one length, `level` or that of the longest ones; each channel and time once."""
    if not parts:
        return None
    level = max(level, *(part.level for part in parts))
    channels, low, high, total, samples = (
        np.concatenate([part[column] for part in parts]) for column in (1, 3, 4, 5, 6)
    )
    numbers = np.concatenate([part.numbers >> (level - part.level) for part in parts])
    order = np.lexsort((numbers, channels))
    channels, numbers = channels[order], numbers[order]
    firsts = np.flatnonzero(np.r_[True, (channels[1:] != channels[:-1]) | (numbers[1:] != numbers[:-1])])
    return EnvelopeCells(
        level,
        channels[firsts],
        numbers[firsts],
        np.minimum.reduceat(low[order], firsts),
        np.maximum.reduceat(high[order], firsts),
        np.add.reduceat(total[order], firsts),
        np.add.reduceat(samples[order], firsts),
    )
