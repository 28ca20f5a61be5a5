"""In which order rows go out: channel by channel. Rows that came in rounds, or channel by channel, need no sorting."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from rta_wire.arrays import I64, U32, Array, Indices

COUNTED: Final = 1 << 16
"""Channels below this are counted directly, which is faster than to compare them in order."""

ROUNDS_MIN: Final = 8
"""With fewer, what each round costs is more than what sorting does."""

STRETCHES_MAX: Final = 32
LOOK_ROWS: Final = 1024
"""Rows that tell in next to no time that most frames did not come in rounds."""


class RowOrder(Protocol):
    """Where each row comes from."""

    def apply(self, values: Array) -> Array:
        """Values in this order."""

    @property
    def rows(self) -> Indices:
        """The place of each row in what came."""


class IndexOrder(NamedTuple):
    """Any order."""

    rows: Indices

    def apply(self, values: Array) -> Array:
        """The copy brings them near the processor, which halves the time of the jumps."""
        return values.copy().take(self.rows, mode="clip")


class IdentityOrder(NamedTuple):
    """Channel by channel already."""

    size: int

    def apply(self, values: Array) -> Array:
        return np.ascontiguousarray(values)

    @property
    def rows(self) -> Indices:
        return np.arange(self.size)


class Stretch(NamedTuple):
    """Neighbours in a round that are neighbours among channels too, and are in equally many rounds."""

    first: int
    channels: int
    rounds: int


class RoundRobinOrder(NamedTuple):
    """A row of each channel, then again a row of each, in the same order; the last round may end early."""

    size: int
    width: int
    stretches: tuple[Stretch, ...]

    def apply(self, values: Array) -> Array:
        step = values.strides[0]
        tables = [
            np.lib.stride_tricks.as_strided(values[one.first :], (one.channels, one.rounds), (step, step * self.width))
            for one in self.stretches
        ]
        return self.assemble(tables)

    @property
    def rows(self) -> Indices:
        return self.apply(np.arange(self.size))

    def has_shared_values(self, values: Array) -> bool:
        """Whether all channels of a stretch have the same values: as times do where each round is one moment."""
        begins = np.zeros(self.width, np.bool_)
        begins[[0, *(one.first for one in self.stretches)]] = True
        changes = np.flatnonzero(values[1:] != values[:-1]) + 1
        return bool(begins[changes % self.width].all())

    def segment_values(self, values: Array) -> list[Array]:
        """The values of the first channel of each stretch."""
        return [values[one.first :: self.width][: one.rounds].copy() for one in self.stretches]

    def assemble(self, tables: Sequence[Array]) -> Array:
        """What `of` gives, from a table for each stretch; one row of it where its channels are alike."""
        made = np.empty(self.size, tables[0].dtype)
        at = 0
        for one, table in zip(self.stretches, tables, strict=True):
            cells = one.channels * one.rounds
            made[at : at + cells].reshape(one.channels, one.rounds)[:] = table
            at += cells
        return made


NO_ORDER: Final = IndexOrder(np.empty(0, np.intp))
"""For runs whose rows nobody needs to know any more."""


class ChannelGroups(NamedTuple):
    """Which channels there are, ascending, how many rows each has, and how to bring them together."""

    order: RowOrder
    channels: U32
    lens: I64


def by_channel(channels: U32) -> ChannelGroups:
    """Rows of one channel stay in the order in which they came."""
    if (found := _rounds(channels)) is not None:
        return found
    order: RowOrder = (
        IdentityOrder(len(channels)) if (channels[1:] >= channels[:-1]).all() else IndexOrder(argsort(channels))
    )
    return ChannelGroups(order, *_counted(channels, order))


def by_time_and_channel(channels: U32, times: I64) -> IndexOrder:
    """Rows of one channel and one time stay in the order in which they came."""
    rows = np.argsort(times, kind="stable")
    return IndexOrder(rows[argsort(channels[rows])])


def argsort(channels: U32) -> Indices:
    """Sorts by the low half, then by the high one: numpy sorts 16-bit numbers by radix, several times as fast."""
    rows = np.argsort(channels.astype(np.uint16), kind="stable")
    if channels.max() >> 16:
        rows = rows[np.argsort((channels[rows] >> 16).astype(np.uint16), kind="stable")]
    return rows


def _counted(channels: U32, order: RowOrder) -> tuple[U32, I64]:
    if channels.max() < COUNTED:
        counts = np.bincount(channels)
        found = np.flatnonzero(counts)
        return found.astype(np.uint32), counts[found]
    ordered = order.apply(channels)
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return ordered[starts], np.diff(starts, append=len(ordered))


def _rounds(channels: U32) -> ChannelGroups | None:
    """None where rows did not come in rounds, or where there is too little to gain."""
    again = channels[1 : len(channels) // ROUNDS_MIN + 1] == channels[0]
    if not again.any():
        return None
    width = int(again.argmax()) + 1
    if not _repeats(channels[:LOOK_ROWS], width) or not _repeats(channels, width):
        return None
    places = np.argsort(channels[:width], kind="stable")
    found = channels[:width][places]
    if (found[1:] == found[:-1]).any():
        return None
    rounds, rest = divmod(len(channels), width)
    lens = rounds + (places < rest)
    edges = np.flatnonzero((np.diff(places) != 1) | (np.diff(lens) != 0)) + 1
    if len(edges) >= STRETCHES_MAX:
        return None
    firsts = np.r_[0, edges]
    sizes = np.diff(firsts, append=width)
    stretches = zip(places[firsts].tolist(), sizes.tolist(), lens[firsts].tolist(), strict=True)
    return ChannelGroups(RoundRobinOrder(len(channels), width, tuple(Stretch(*one) for one in stretches)), found, lens)


def _repeats(channels: U32, width: int) -> bool:
    return bool((channels[width:] == channels[:-width]).all())
