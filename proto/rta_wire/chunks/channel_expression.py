"""Which channels a request is about: hexadecimal ids and ranges with open ends, such as `-5,7,B-D,14-`. Pure."""

import bisect
from collections.abc import Iterable, Sequence
from typing import Final, Self

import msgspec
import numpy as np

from rta_wire import errors, limits, quoting
from rta_wire.arrays import U32, Bools


class ChannelSelection(msgspec.Struct, frozen=True):
    """Ranges of channel ids, both ends included, in ascending order and apart from each other."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, ids: Iterable[int]) -> Self:
        """Just these channels."""
        return cls(_merge((channel, channel) for channel in ids))

    @property
    def is_everything(self) -> bool:
        return self.ranges == EVERYTHING.ranges

    def mask(self, channels: U32) -> Bools:
        """For each of `channels` whether it is selected."""
        if self.is_everything:
            return np.ones(len(channels), np.bool_)
        if not self.ranges:
            return np.zeros(len(channels), np.bool_)
        lows, highs = (np.array(bounds, np.int64) for bounds in zip(*self.ranges, strict=True))
        index = np.searchsorted(lows, channels, side="right") - 1
        return (index >= 0) & (channels <= highs[np.maximum(index, 0)])

    def has(self, channel: int) -> bool:
        return self.overlaps(channel, channel)

    def overlaps(self, first: int, last: int) -> bool:
        """Whether a channel between two ids, both included, may be selected."""
        at = bisect.bisect_left(self.ranges, first, key=_end)
        return at < len(self.ranges) and self.ranges[at][0] <= last

    def without(self, channels: Sequence[int]) -> Self:
        """All but some channels, which come in ascending order."""
        ranges = []
        for low, high in self.ranges:
            begin = low
            for at in range(bisect.bisect_left(channels, low), len(channels)):
                channel = channels[at]
                if channel > high:
                    break
                if channel > begin:
                    ranges.append((begin, channel - 1))
                begin = channel + 1
            if begin <= high:
                ranges.append((begin, high))
        return type(self)(tuple(ranges))

    def union(self, other: Self) -> Self:
        return type(self)(_merge((*self.ranges, *other.ranges)))


def _end(bounds: tuple[int, int]) -> int:
    return bounds[1]


def parse(text: str) -> ChannelSelection:
    """The channels that an expression names. Raises `BadQuery`."""
    if len(text) > limits.CHANNEL_EXPRESSION_MAX_CHARS:
        raise errors.BadQuery(where="channels", reason=f"more than {limits.CHANNEL_EXPRESSION_MAX_CHARS} characters")
    parts = text.split(",")
    if len(parts) > limits.CHANNEL_EXPRESSION_MAX_RANGES:
        raise errors.BadQuery(where="channels", reason=f"more than {limits.CHANNEL_EXPRESSION_MAX_RANGES} ranges")
    return ChannelSelection(_merge(map(_parse_range, parts)))


EVERYTHING: Final = ChannelSelection(((0, limits.CHANNEL_ID_MAX),))

_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_MAX_DIGITS: Final = 8


def _parse_range(text: str) -> tuple[int, int]:
    low, dash, high = text.strip().partition("-")
    if not low and not dash:
        raise _bad(text, "it is empty")
    first = _parse_id(low, text) if low else 0
    if not dash:
        return first, first
    last = _parse_id(high, text) if high else limits.CHANNEL_ID_MAX
    if last < first:
        raise _bad(text, "it ends before it begins")
    return first, last


def _parse_id(digits: str, text: str) -> int:
    if not _DIGITS.issuperset(digits) or len(digits) > _MAX_DIGITS:
        raise _bad(text, "ids are hexadecimal numbers of at most eight digits")
    return int(digits, 16)


def _bad(text: str, reason: str) -> errors.BadQuery:
    return errors.BadQuery(where=f"channels {quoting.cut(text, quoting.NAME_MAX_CHARS)!r}", reason=reason)


def _merge(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], high)
        else:
            merged.append((low, high))
    return tuple(merged)
