"""For the encoder: the order that brings rows together by channel.

Rows that came channel by channel, or in rounds, need no sorting. A round is one row of each channel, always in the same
order of channels.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from rta_wire.arrays import I64, U32, Array, Indices

BINCOUNT_MAX_CHANNEL: Final = 1 << 16
"""Channels below this are counted by their numbers, which is faster than comparing neighbours."""

ROUNDS_MIN: Final = 8
"""With fewer rounds, copying them costs more than sorting."""

STRETCHES_MAX: Final = 32
PROBE_ROWS: Final = 1024
"""Rows that are compared first: in most frames that did not come in rounds these show it."""


class RowOrder(Protocol):
    """A permutation of rows."""

    def apply(self, values: Array) -> Array:
        """The values of all rows in this order."""

    @property
    def rows(self) -> Indices:
        """For each row in this order its index before."""


class IndexOrder(NamedTuple):
    """Any permutation, as a list of indices."""

    rows: Indices

    def apply(self, values: Array) -> Array:
        """The values in this order. Copying them first brings them into the cache, which halves the time."""
        return values.copy().take(self.rows, mode="clip")


class IdentityOrder(NamedTuple):
    """Rows that came channel by channel already."""

    size: int

    def apply(self, values: Array) -> Array:
        return np.ascontiguousarray(values)

    @property
    def rows(self) -> Indices:
        return np.arange(self.size)


class Stretch(NamedTuple):
    """Rows of a round whose channels ascend without another channel in between, and that are in equally many rounds."""

    first: int
    """The first of the rows in its round."""
    channels: int
    rounds: int


class RoundRobinOrder(NamedTuple):
    """Rows that came in rounds of `width` rows; the last round may be incomplete."""

    size: int
    width: int
    stretches: tuple[Stretch, ...]

    def apply(self, values: Array) -> Array:
        step = values.strides[0]
        tables = [
            np.lib.stride_tricks.as_strided(
                values[stretch.first :], (stretch.channels, stretch.rounds), (step, step * self.width)
            )
            for stretch in self.stretches
        ]
        return self.assemble(tables)

    @property
    def rows(self) -> Indices:
        return self.apply(np.arange(self.size))

    def has_shared_values(self, values: Array) -> bool:
        """Whether all channels of each stretch have the same values, as times are where each round has one time."""
        is_start = np.zeros(self.width, np.bool_)
        is_start[[0, *(stretch.first for stretch in self.stretches)]] = True
        changes = np.flatnonzero(values[1:] != values[:-1]) + 1
        return bool(is_start[changes % self.width].all())

    def stretch_values(self, values: Array) -> list[Array]:
        """The values of the first channel of each stretch."""
        return [values[stretch.first :: self.width][: stretch.rounds].copy() for stretch in self.stretches]

    def assemble(self, tables: Sequence[Array]) -> Array:
        """Values in this order, from a table for each stretch: a row for each channel, or one row for all of them."""
        ordered = np.empty(self.size, tables[0].dtype)
        first = 0
        for stretch, table in zip(self.stretches, tables, strict=True):
            cells = stretch.channels * stretch.rounds
            ordered[first : first + cells].reshape(stretch.channels, stretch.rounds)[:] = table
            first += cells
        return ordered


NO_ORDER: Final = IndexOrder(np.empty(0, np.intp))
"""For runs whose order is not needed any more."""


class ChannelGroups(NamedTuple):
    """The channels of some rows, ascending, how many rows each has, and the order that brings its rows together."""

    order: RowOrder
    channels: U32
    lens: I64


def by_channel(channels: U32) -> ChannelGroups:
    """Groups rows by channel. Rows of one channel stay in the order in which they came."""
    if (groups := _round_groups(channels)) is not None:
        return groups
    order: RowOrder = (
        IdentityOrder(len(channels)) if (channels[1:] >= channels[:-1]).all() else IndexOrder(argsort(channels))
    )
    return ChannelGroups(order, *_count(channels, order))


def by_time_and_channel(channels: U32, times: I64) -> IndexOrder:
    """Sorts rows by channel, then by time. Rows of one channel and one time stay in the order in which they came."""
    rows = np.argsort(times, kind="stable")
    return IndexOrder(rows[argsort(channels[rows])])


def argsort(channels: U32) -> Indices:
    """The stable order of channels. Sorts by their low half, then by the high one: numpy sorts 16-bit numbers by radix,
    several times as fast as others."""
    rows = np.argsort(channels.astype(np.uint16), kind="stable")
    if channels.max() >> 16:
        rows = rows[np.argsort((channels[rows] >> 16).astype(np.uint16), kind="stable")]
    return rows


def _count(channels: U32, order: RowOrder) -> tuple[U32, I64]:
    """The different channels, ascending, and how many rows each has."""
    if channels.max() < BINCOUNT_MAX_CHANNEL:
        counts = np.bincount(channels)
        present = np.flatnonzero(counts)
        return present.astype(np.uint32), counts[present]
    ordered = order.apply(channels)
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return ordered[starts], np.diff(starts, append=len(ordered))


def _round_groups(channels: U32) -> ChannelGroups | None:
    """Groups of rows that came in rounds; None where they did not, or where sorting is as fast."""
    is_first_channel = channels[1 : len(channels) // ROUNDS_MIN + 1] == channels[0]
    if not is_first_channel.any():
        return None
    width = int(is_first_channel.argmax()) + 1
    if not _repeats(channels[:PROBE_ROWS], width) or not _repeats(channels, width):
        return None
    positions = np.argsort(channels[:width], kind="stable")
    distinct = channels[:width][positions]
    if (distinct[1:] == distinct[:-1]).any():
        return None
    rounds, rest = divmod(len(channels), width)
    lens = rounds + (positions < rest)
    edges = np.flatnonzero((np.diff(positions) != 1) | (np.diff(lens) != 0)) + 1
    if len(edges) >= STRETCHES_MAX:
        return None
    firsts = np.r_[0, edges]
    sizes = np.diff(firsts, append=width)
    stretches = map(Stretch, positions[firsts].tolist(), sizes.tolist(), lens[firsts].tolist())
    return ChannelGroups(RoundRobinOrder(len(channels), width, tuple(stretches)), distinct, lens)


def _repeats(channels: U32, width: int) -> bool:
    return bool((channels[width:] == channels[:-width]).all())
