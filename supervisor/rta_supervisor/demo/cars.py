"""The cars of the demo and their samples, by a formula that Spark and numpy compute to the same bit."""

from typing import Final

import msgspec
import numpy as np

from rta_wire.arrays import F64, I64

CARS: Final = 3
CHANNELS: Final = 50
RATE_HZ: Final = 100
DURATION_S: Final = 60
TICKS: Final = RATE_HZ * DURATION_S
TICK_NS: Final = 10**9 // RATE_HZ
START_NS: Final = 1_767_225_600 * 10**9

# A triangle wave per channel: whole numbers and a power of two, so that no rounding can differ.
_STEP: Final = 7
_PERIOD: Final = 4000
_CAR_OFFSET: Final = 977
_SCALE: Final = 0.125

WAVE_SQL: Final = f"abs(pmod(tick * (channel + {_STEP}) + car * {_CAR_OFFSET}, {_PERIOD}) - {_PERIOD // 2}) * {_SCALE}D"
"""A sample as Spark computes it from the columns `car`, `channel` and `tick`."""


class RunNames(msgspec.Struct, frozen=True):
    """Names of the stream, the keys and the sessions of one run of the demo: no two runs share one."""

    run: str

    @property
    def stream(self) -> str:
        return f"demo-{self.run}"

    @property
    def key_prefix(self) -> str:
        return f"rtas-demo-{self.run}:"

    def session(self, car: int) -> str:
        return f"demo-{self.run}-car-{car}"

    @property
    def sessions(self) -> dict[int, str]:
        return {car: self.session(car) for car in range(1, CARS + 1)}


def expected_samples(car: int) -> tuple[I64, I64, F64]:
    """Channels, times and values of all samples of a car, sorted by channel and time."""
    channel = np.repeat(np.arange(1, CHANNELS + 1, dtype=np.int64), TICKS)
    tick = np.tile(np.arange(TICKS, dtype=np.int64), CHANNELS)
    wave = np.abs((tick * (channel + _STEP) + car * _CAR_OFFSET) % _PERIOD - _PERIOD // 2) * _SCALE
    return channel, START_NS + tick * TICK_NS, wave
