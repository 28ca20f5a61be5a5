"""Plays cars in real time, as recorders on them would: a session each, until the process is told to stop.

Runs as a process of its own. Prints an event as a JSON line when sessions are open, and another one when they are
closed; `demo.watch` reads them.
"""

import contextlib
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

import rta_writers
from rta_supervisor.demo import laps

CARS: Final = 3
STREAM: Final = "track"
CHANNELS_FILE: Final = Path(__file__).with_name("laps.toml")
WRITE_EVERY_S: Final = 0.05
NS_PER_S: Final = 10**9
SAMPLE_NS: Final = NS_PER_S // laps.RATE_HZ


def main() -> None:
    url, run = sys.argv[1:]
    stopping = threading.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stopping.set())
    client = rta_writers.SessionClient(url)
    channels = rta_writers.Channels.load(CHANNELS_FILE)
    ids = {channel.name: channel.id for channel in channels.list.channels}
    with contextlib.ExitStack() as stack:
        cars = []
        for number in range(1, CARS + 1):
            session = stack.enter_context(
                client.session(
                    f"{run}-car-{number}",
                    stream=STREAM,
                    identifier=f"Car {number}, {run}",
                    type="demo",
                    details={"Car": number, "Run": run},
                    channels=channels,
                )
            )
            cars.append(stack.enter_context(contextlib.closing(CarRecorder(number, session.options, ids))))
        emit("open", sessions=[f"{run}-car-{number}" for number in range(1, CARS + 1)])
        while not stopping.wait(WRITE_EVERY_S):
            for car in cars:
                car.record(time.time_ns())
        emit("closing")
    emit("closed")


class CarRecorder:
    """Writes what one car measures, and the events of its laps."""

    def __init__(self, number: int, options: dict[str, str], ids: dict[str, int]) -> None:
        self._car = laps.Car(number)
        self._ids = ids
        self._start_ns = time.time_ns() // SAMPLE_NS * SAMPLE_NS
        self._next = 0
        self._lap = self._car.lap_at(0.0)
        self._is_oil_low = False
        self._samples = rta_writers.BurstWriter(options, unit="samples")
        self._events = rta_writers.BurstWriter(options, unit="events")

    def close(self) -> None:
        self._samples.close()
        self._events.close()

    def record(self, now_ns: int) -> None:
        """Writes the samples since the last call."""
        last = (now_ns - self._start_ns) // SAMPLE_NS
        numbers = np.arange(self._next, last + 1, dtype=np.int64)
        if not len(numbers):
            return
        self._next = int(last) + 1
        values = self._car.values(numbers * SAMPLE_NS / NS_PER_S)
        times = self._start_ns + numbers * SAMPLE_NS
        channels = np.repeat([self._ids[name] for name in values], len(numbers))
        self._samples.samples(channels, np.tile(times, len(values)), np.concatenate(list(values.values())))
        self._record_events(int(times[-1]), float(numbers[-1] * SAMPLE_NS / NS_PER_S), float(values["pOil"].min()))

    def _record_events(self, time_ns: int, time_s: float, oil_bar: float) -> None:
        lap = self._car.lap_at(time_s)
        if lap != self._lap:
            self._event(laps.LAP_EVENT, time_ns, f"lap {self._lap} completed", [float(self._lap)])
            self._lap = lap
        is_oil_low = oil_bar < laps.OIL_LOW_BAR
        if is_oil_low and not self._is_oil_low:
            self._event(laps.OIL_EVENT, time_ns, "oil pressure low", [oil_bar])
        self._is_oil_low = is_oil_low

    def _event(self, event_id: int, time_ns: int, text: str, raw: list[float]) -> None:
        columns: dict[str, Any] = {
            "event_definition_id": pa.array([event_id], pa.int32()),
            "time": pa.array([time_ns], pa.int64()),
            "app_name": pa.array(["car"]),
            "status_text": pa.array([text]),
            "raw_data": pa.array([raw], pa.list_(pa.float64())),
        }
        self._events.write(pa.table(columns))
        self._events.flush()


def emit(event: str, **fields: object) -> None:
    """Prints an event as one JSON line, for the process that started this one."""
    print(msgspec.json.encode({"event": event, **fields}).decode(), flush=True)


if __name__ == "__main__":
    main()
