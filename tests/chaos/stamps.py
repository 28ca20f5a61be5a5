"""What a sample of a chaos run says of itself: unit, epoch, seq and n are in its value, and its time repeats them.

A code is a whole number below 2^52: 8 bits of unit, 12 of epoch, 16 of seq, 16 of n. The value is the code times an
odd number, modulo 2^52: a double holds it exactly, no two codes have the same, and LZ4 finds nothing in it to compress,
which keeps the oracle's own decompression quick.
"""

import random
from typing import Final

import numpy as np
import numpy.typing as npt

START_NS: Final = 1_700_000_000_000_000_000
STEP_NS: Final = 1000
CHANNELS_PER_UNIT: Final = 3
IN_UNIT: Final = (1 << 44) - 1
N_MAX: Final = 1 << 16

BITS: Final = 52
FACTOR: Final = 0x9E3779B97F4A7
BACK: Final = pow(FACTOR, -1, 1 << BITS)

Codes = npt.NDArray[np.int64]


def codes(unit: int, epoch: int, seq: int, count: int) -> Codes:
    """The codes of one group."""
    if not (0 <= unit < 1 << 8 and 0 <= epoch < 1 << 12 and 0 <= seq < 1 << 16 and 0 < count <= N_MAX):
        raise ValueError(f"unit {unit}, epoch {epoch}, seq {seq}, {count} samples: that does not fit a stamp")
    return np.arange(count, dtype=np.int64) + ((unit << 44) | (epoch << 32) | (seq << 16))


def times_ns(codes_: Codes) -> Codes:
    return START_NS + (codes_ & IN_UNIT) * STEP_NS


def channels(codes_: Codes) -> Codes:
    return 1 + (codes_ >> 44) * CHANNELS_PER_UNIT + (codes_ & (N_MAX - 1)) % CHANNELS_PER_UNIT


def values(codes_: Codes) -> npt.NDArray[np.float64]:
    return _times(codes_, FACTOR).astype(np.float64)


def from_values(doubles: npt.NDArray[np.float64]) -> Codes:
    return _times(doubles.astype(np.int64), BACK)


def _times(numbers: Codes, factor: int) -> Codes:
    return ((numbers.astype(np.uint64) * np.uint64(factor)) & np.uint64((1 << BITS) - 1)).astype(np.int64)


def group_size(seed: str, unit: int, epoch: int, seq: int, largest: int) -> int:
    """How many samples a group has: the same for everybody who writes it."""
    return random.Random(f"{seed}/{unit}/{epoch}/{seq}").randint(largest // 8, largest)  # noqa: S311 - any size will do
