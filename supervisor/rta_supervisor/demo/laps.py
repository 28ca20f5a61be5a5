"""Cars on their laps, for people who want to see something move: values of named channels at any time. Pure.

A lap is a track of straights and corners. From the speed that these allow, everything else follows.
"""

from typing import Final

import numpy as np

from rta_wire.arrays import F64

RATE_HZ: Final = 100
LAP_S: Final = 40.0
LAP_M: Final = 2600.0
CORNERS: Final = (
    (0.08, 1, 90.0),
    (0.21, -1, 140.0),
    (0.30, 1, 75.0),
    (0.47, -1, 190.0),
    (0.63, 1, 110.0),
    (0.81, -1, 85.0),
)
"""Where in the lap, to which side, and the speed in km/h that the corner allows."""

CORNER_WIDTH: Final = 0.035
SPEED_MAX: Final = 305.0
GEAR_SPEEDS: Final = np.array([60.0, 95.0, 130.0, 165.0, 200.0, 240.0, 275.0])
LAP_EVENT, OIL_EVENT = 1, 2
OIL_LOW_BAR: Final = 2.6


class Car:
    """One car, faster or slower than the others by its number."""

    def __init__(self, number: int) -> None:
        self._lap_s = LAP_S * (1 + 0.013 * number)
        self._offset = 0.31 * number
        self._noise = np.random.default_rng(number)

    def lap_at(self, time_s: float) -> int:
        """The number of the lap that the car is on, from 1."""
        return int(time_s / self._lap_s + self._offset) + 1

    def values(self, times_s: F64) -> dict[str, F64]:
        """Samples of every channel, by name, at times in seconds since the start."""
        laps = times_s / self._lap_s + self._offset
        place = laps % 1.0
        speed = _speed(place)
        ahead = (_speed((place + 0.002) % 1.0) - _speed((place - 0.002) % 1.0)) / (0.004 * self._lap_s)
        g_long = ahead / 3.6 / 9.81
        side = _side(place)
        g_lat = side * (speed / 3.6) ** 2 / 900.0
        gear = np.searchsorted(GEAR_SPEEDS, speed) + 1
        gear_top = np.append(GEAR_SPEEDS, SPEED_MAX + 25)[gear - 1]
        warm = 1 - np.exp(-times_s / 90.0)
        jitter = self._noise.normal(size=(3, len(times_s)))
        oil_bar = 4.6 - 0.9 * np.abs(g_lat) + 0.05 * jitter[0]
        tyres = 62 + 34 * warm
        return {
            "vCar": speed + 0.3 * jitter[1],
            "nEngine": np.clip(12_800 * speed / gear_top + 25 * jitter[2], 0, 14_000).round(),
            "NGear": gear.astype(float),
            "rThrottle": np.clip(58 + 60 * g_long, 0, 100).round(),
            "pBrake": np.clip(-38 * g_long - 8, 0, 120),
            "aSteer": 62 * side + 1.5 * jitter[0],
            "gLat": g_lat + 0.04 * jitter[1],
            "gLong": g_long + 0.03 * jitter[2],
            "TOil": 84 + 26 * warm + 2.5 * np.sin(laps * 6.28),
            "pOil": oil_bar,
            "TWater": 78 + 18 * warm + 1.5 * np.sin(laps * 6.28 + 1),
            "mFuel": np.maximum(0.0, 104 - 1.7 * laps),
            "TTyreFL": tyres + 7 * np.maximum(g_lat, 0) + 0.1 * jitter[0],
            "TTyreFR": tyres + 7 * np.maximum(-g_lat, 0) + 0.1 * jitter[1],
            "TTyreRL": tyres + 5 * np.maximum(g_lat, 0) + 3 * np.maximum(g_long, 0),
            "TTyreRR": tyres + 5 * np.maximum(-g_lat, 0) + 3 * np.maximum(g_long, 0),
            "sLap": place * LAP_M,
            "NLap": np.floor(laps) + 1,
        }


def _speed(place: F64) -> F64:
    """The speed in km/h at a place of the lap: the highest there is, less what corners take."""
    speed = np.full(len(place), SPEED_MAX)
    for corner, _, corner_speed in CORNERS:
        speed -= (SPEED_MAX - corner_speed) * np.exp(-(_distance(place, corner) ** 2) / (2 * CORNER_WIDTH**2))
    slowest: F64 = np.maximum(speed, 55.0)
    return slowest


def _side(place: F64) -> F64:
    """How much the car turns: -1 to 1."""
    total = np.zeros(len(place))
    for corner, side, _ in CORNERS:
        total += side * np.exp(-(_distance(place, corner) ** 2) / (2 * (CORNER_WIDTH * 0.8) ** 2))
    return total


def _distance(place: F64, corner: float) -> F64:
    away = np.abs(place - corner)
    return np.minimum(away, 1.0 - away)
