"""A server, a supervisor and a gateway with its viewer, for tests in a browser; and what the page knows."""

import contextlib
import struct
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_wire.arrays import F64
from tests.acceptance.browser import Browser
from tests.support import gateways, supervisors
from tests.support.gateways import Gateway
from tests.support.waiting import wait_until

NS_PER_S = 10**9
START_NS = 1_790_000_000 * NS_PER_S
RATE_HZ = 100
QUICK = {"RTA_REDIS__TIMEOUT_S": "2"}
"""Settings of the gateway that make a test wait less for the same behaviour."""

LINES = """
return viewer.painted?.lines.flat().map((line) => ({channel: line.channel, name: line.name, unit: line.unit,
  isOther: line.isOther, times: Array.from(line.times, (time) => time - viewer.model.first), lows: [...line.lows],
  highs: [...line.highs], lasts: [...line.lasts], count: line.count,
  gap: Number.isFinite(line.gap) ? line.gap : null, isLoading: viewer.painted.isLoading})) ?? []
"""
"""What the page draws: read from its model, not from its pixels. Times in ns since the beginning of the data."""

ZOOM = """
const [start, end] = arguments;
viewer.range.fix(viewer.model.first + start, viewer.model.first + end);
viewer.changed();
"""


class ViewerSite:
    """One deployment whose gateway can be killed and started again on its port."""

    def __init__(self, redis_server: server.EmbeddedServer, environment: Mapping[str, str]) -> None:
        self.redis = redis_server
        self.environment = environment
        self.redis_client = redis.Redis.from_url(redis_server.url)
        self.client = rta_writers.SessionClient(redis_server.url, timeout_s=30)
        self._port = server.free_port()
        self.gateway = self._start()

    def _start(self) -> Gateway:
        return Gateway(self.redis.url, {**self.environment, **QUICK, "RTA_GATEWAY__PORT": str(self._port)})

    def stored_samples(self, identity: str) -> set[tuple[int, int, float]]:
        """Channel, time and value of the samples of a session in its live stream, read without any of our code."""
        fields: Any = self.redis_client.hmget(f"sessions:{identity}", "streamSessionId", "streamName")
        number, stream = fields
        entries: Any = self.redis_client.xrange(f"stream:{stream.decode()}")
        bursts = [
            gateways.decode(fields[b"data"], is_prefixed=None) for _, fields in entries if fields[b"id"] == number
        ]
        return {
            (channel, time_ns, *struct.unpack("<d", value))
            for burst in bursts
            for channel, time_ns, value in gateways.samples_of(burst)
        }

    def kill_gateway(self) -> None:
        self.gateway.kill()

    def restart_gateway(self) -> None:
        self.gateway = self._start()

    def address(self, **view: str) -> str:
        return f"http://127.0.0.1:{self._port}/" + (f"#{urlencode(view)}" if view else "")


@contextlib.contextmanager
def running() -> Iterator[ViewerSite]:
    with tempfile.TemporaryDirectory(prefix="rtas-viewer-") as state, server.running() as redis_server:
        environment = {"RTA_CATALOGUE__PATH": str(Path(state, "catalogue.sqlite"))}
        with supervisors.running(redis_server.url, environment):
            yield from _site(redis_server, environment)


def _site(redis_server: server.EmbeddedServer, environment: Mapping[str, str]) -> Iterator[ViewerSite]:
    site = ViewerSite(redis_server, environment)
    try:
        yield site
    finally:
        site.gateway.stop()


def wave(channel: int, count: int, first: int = 0) -> F64:
    """Samples of a channel that no two channels share, by their number."""
    numbers = np.arange(first, first + count)
    return 100.0 * channel + np.sin(numbers / (20.0 + channel)) * 40


def write_wave(
    writer: rta_writers.BurstWriter, channels: Sequence[int], count: int, *, first: int = 0, start_ns: int = START_NS
) -> None:
    """Samples of channels at 100 Hz, all in the stream when it returns."""
    times = start_ns + np.arange(first, first + count, dtype=np.int64) * (NS_PER_S // RATE_HZ)
    for channel in channels:
        writer.samples(np.full(count, channel), times, wave(channel, count, first))
    writer.flush()


def write_event(writer: rta_writers.BurstWriter, time_ns: int, text: str, application: str = "app") -> None:
    """An event, in the stream when it returns."""
    columns: dict[str, Any] = {
        "event_definition_id": pa.array([1], pa.int32()),
        "time": [time_ns],
        "app_name": [application],
        "status_text": [text],
        "raw_data": pa.array([[]], pa.list_(pa.float64())),
    }
    writer.write(pa.table(columns))
    writer.flush()


class LiveWave:
    """A thread that writes two channels at 100 Hz of real time, until it is stopped."""

    def __init__(self, session: rta_writers.Session, start_ns: int) -> None:
        self.count = 0
        self._start_ns = start_ns
        self._writer = rta_writers.BurstWriter(session.options, unit="live")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.05):
            write_wave(self._writer, (1, 2), 5, first=self.count, start_ns=self._start_ns)
            self.count += 5

    def stop(self) -> None:
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join()
            self._writer.close()

    def __enter__(self) -> "LiveWave":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def lines(page: Browser) -> list[dict[str, Any]]:
    """The lines that the page draws now."""
    value: Any = page.run(LINES)
    return list(value)


def zoom(page: Browser, start_s: float, end_s: float) -> None:
    """Shows a range of seconds since the beginning of the data, without its end."""
    page.run(ZOOM, round(start_s * NS_PER_S), round(end_s * NS_PER_S) - 1)


def wait_for_samples(page: Browser, count: int, *, timeout_s: float = 20) -> list[dict[str, Any]]:
    """The lines once each stands for a number of samples and nothing is loading."""

    def complete() -> list[dict[str, Any]]:
        drawn = lines(page)
        is_complete = bool(drawn) and all(line["count"] == count and not line["isLoading"] for line in drawn)
        return drawn if is_complete else []

    return wait_until(complete, timeout_s=timeout_s, what=f"{count} samples of each line")


def closed_session(site: ViewerSite, identity: str, count: int = 3000, **properties: Any) -> None:
    """A session that is over, with three channels at 100 Hz."""
    with written_session(site, identity, **properties) as writer:
        write_wave(writer, (1, 2, 3), count)


@contextlib.contextmanager
def written_session(site: ViewerSite, identity: str, **properties: Any) -> Iterator[rta_writers.BurstWriter]:
    """A session with a writer; both are closed at the end of the block."""
    with (
        site.client.session(identity, stream="rig", **properties) as session,
        rta_writers.BurstWriter(session.options, unit="u") as writer,
    ):
        yield writer


def show(page: Browser, site: ViewerSite, **view: str) -> None:
    page.driver.get("about:blank")
    page.driver.get(site.address(**view))


def set_value(page: Browser, element: str, value: str) -> None:
    """As a person does with a list or a slider: the page hears of it."""
    script = """const control = document.getElementById(arguments[0]);
    control.value = arguments[1];
    for (const name of ['input', 'change']) control.dispatchEvent(new Event(name, {bubbles: true}));"""
    page.run(script, element, value)
