"""The cars of the demo, their channels, and their samples by a formula that Spark and numpy compute to the same bit."""

from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from rta_wire.arrays import F64, I64
from rta_wire.channels import files

CHANNELS_FILE: Final = Path(__file__).with_name("car.csv")
"""What each channel of a car is: the file that the job gives to `Channels.load`."""

CHANNEL_LIST: Final = files.parse(CHANNELS_FILE.read_text(encoding="utf-8"), files.FileForm.CSV, name="car.csv")

CARS: Final = 3
CHANNELS: Final = len(CHANNEL_LIST.channels)
"""Their ids are 1 and up, without gaps."""

RATE_HZ: Final = 100
DURATION_S: Final = 60
TICKS: Final = RATE_HZ * DURATION_S
TICK_NS: Final = 10**9 // RATE_HZ
START_NS: Final = 1_767_225_600 * 10**9

# A triangle wave over the range of each channel: one product and one sum of doubles, which round the same everywhere.
_STEP: Final = 7
_PERIOD: Final = 4000
_CAR_OFFSET: Final = 977
_LOWEST: Final = [float(channel.min or 0) for channel in CHANNEL_LIST.channels]
_SCALES: Final = [((channel.max or 0) - (channel.min or 0)) / (_PERIOD // 2) for channel in CHANNEL_LIST.channels]


def _sql_array(numbers: list[float]) -> str:
    return f"array({', '.join(f'{number!r}D' for number in numbers)})"


WAVE_SQL: Final = (
    f"element_at({_sql_array(_LOWEST)}, int(channel)) + "
    f"abs(pmod(tick * (channel + {_STEP}) + car * {_CAR_OFFSET}, {_PERIOD}) - {_PERIOD // 2}) * "
    f"element_at({_sql_array(_SCALES)}, int(channel))"
)
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
    wave = np.abs((tick * (channel + _STEP) + car * _CAR_OFFSET) % _PERIOD - _PERIOD // 2)
    values = np.array(_LOWEST)[channel - 1] + wave * np.array(_SCALES)[channel - 1]
    return channel, START_NS + tick * TICK_NS, values
