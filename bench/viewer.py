"""The viewer in a real browser: how long it takes to open, frames a second and memory while samples come twenty times
faster than real time, and how long a session of two hours takes to its first picture and to one second of it. Needs
Chromium and its driver.
"""

import atexit
import contextlib
import functools
import io
import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

import rta_writers
from bench.measure import Case
from tests.acceptance import browser as browsers
from tests.acceptance import viewer_site
from tests.acceptance.browser import Browser
from tests.acceptance.viewer_site import NS_PER_S, RATE_HZ, START_NS, ViewerSite
from tests.support.waiting import wait_until

FAST_CHANNELS, DRAWN_CHANNELS, SPEED = 50, 10, 20
FAST_S, QUICK_FAST_S = 40.0, 4.0
LONG_CHANNELS, LONG_S, QUICK_LONG_S = 20, 7200, 60
FRAMES_AIM, FIRST_MAX_MS, ZOOM_MAX_MS, OPEN_MAX_MS = 30.0, 2000.0, 1000.0, 2000.0
LAG_MAX_S = 1.0

COUNT_FRAMES = """
globalThis.frames_ = 0;
const { picture } = viewer;
const paint = picture.paint.bind(picture);
picture.paint = () => {
  const before = picture.shown.end;
  paint();
  if (picture.shown.end > before) globalThis.frames_ += 1;
};
"""
"""A script that counts pictures which end later than the one before."""

DRAWN_S = (
    "return (Math.max(...viewer.painted.lines.flat().map((line) => line.times.at(-1))) - viewer.model.first) / 1e9"
)
"""A script: seconds of data up to the last sample of the picture."""

FIRST_DRAWN = "return performance.getEntriesByName('samples drawn')[0]?.startTime ?? null"
"""A script: milliseconds from the beginning of the navigation to the first picture with samples."""


@functools.cache
def site() -> ViewerSite:
    """A deployment for this module, which ends with the process."""
    stack = contextlib.ExitStack()
    running = stack.enter_context(viewer_site.running())
    # After what started its processes: it has to end before that does.
    atexit.register(close_silently, stack)
    return running


def close_silently(stack: contextlib.ExitStack) -> None:
    """Ends what was started, without the log that tests show."""
    with contextlib.redirect_stdout(io.StringIO()):
        stack.close()


@functools.cache
def browser() -> Browser:
    """A browser for this module, which ends with the process."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    page = stack.enter_context(browsers.running())
    page.emulate(1280, 900)
    return page


def bench_open(quick: bool) -> Iterator[Case]:
    """From the address of a live session to its first samples on the screen."""
    del quick
    if browsers.CHROMIUM is None or browsers.DRIVER is None:
        return
    name = f"viewer: from the address of a live session to its first samples, against {OPEN_MAX_MS:g}"
    yield Case(name, "ms", open_ms, lambda: OPEN_MAX_MS, 1.0, at_most=True)


def open_ms() -> float:
    """Milliseconds that a page without anything in its cache takes."""
    session = site().client.session(f"opened-{time.time_ns()}", stream="opened")
    page = browser()
    with contextlib.closing(FastWriter(session, speed=1)) as writer:
        wait_until(lambda: writer.written > RATE_HZ, what="a second of samples")
        page.driver.get("about:blank")
        page.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
        page.driver.get(site().address(session=session.target.identity))
        drawn_ms = wait_until(lambda: page.run(FIRST_DRAWN), what="samples on the screen")
        page.driver.get("about:blank")
    session.close()
    return float(str(drawn_ms))


def bench_live(quick: bool) -> Iterator[Case]:
    """Frames and memory of a picture that scrolls."""
    if browsers.CHROMIUM is None or browsers.DRIVER is None:
        return
    seconds = QUICK_FAST_S if quick else FAST_S
    run = functools.cache(functools.partial(scroll, seconds))
    name = f"viewer: {FAST_CHANNELS} channels at {SPEED} times real time, {DRAWN_CHANNELS} drawn"
    yield Case(f"{name}: frames, against {FRAMES_AIM:g}", "1/s", lambda: run()[0], lambda: FRAMES_AIM, 1.0)
    yield Case(
        f"{name}: memory at the end, against the middle", "B", lambda: run()[2], lambda: run()[1], 1.3, at_most=True
    )


def scroll(seconds: float) -> tuple[float, float, float]:
    """Frames a second, and memory of the browser's pages in the middle and at the end."""
    session = site().client.session(f"fast-{time.time_ns()}", stream="fast")
    page = browser()
    panes = "-".join([".".join(map(str, range(1, 6))), ".".join(map(str, range(6, DRAWN_CHANNELS + 1)))])
    with contextlib.closing(FastWriter(session)) as writer:
        page.driver.get("about:blank")
        page.driver.get(site().address(session=session.target.identity, panes=panes, span="60"))
        wait_until(lambda: [line for line in viewer_site.lines(page) if line["count"] > 100], what="moving lines")
        page.run(
            "viewer.model.post({kind: 'watch', channels: [...Array(arguments[0]).keys()].map((n) => n + 1)})",
            FAST_CHANNELS,
        )
        page.run(COUNT_FRAMES)
        started_s = time.perf_counter()
        memories = []
        for share in (0.5, 1.0):
            wait_until(lambda share=share: time.perf_counter() - started_s > seconds * share, timeout_s=seconds * 2)  # type: ignore[misc]
            memories.append(page_memory())
        frames = float(str(page.run("return globalThis.frames_"))) / (time.perf_counter() - started_s)
        behind_s = (writer.written / RATE_HZ - float(str(page.run(DRAWN_S)))) / SPEED
        assert behind_s < LAG_MAX_S, f"the picture is {behind_s:.1f} s behind"
        page.driver.get("about:blank")
    session.close()
    return frames, memories[0], memories[1]


def page_memory() -> float:
    """Resident memory of the pages of this browser."""
    parents, renderers = {}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid = int(status.parent.name)
            parents[pid] = int(status.read_text().rpartition(")")[2].split()[1])
            if b"--type=renderer" in status.with_name("cmdline").read_bytes():
                renderers[pid] = int(status.with_name("statm").read_text().split()[1]) * 4096
    driver = browser().driver.service.process.pid
    return float(sum(memory for pid, memory in renderers.items() if driver in ancestors(pid, parents)))


def ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """The processes that a process comes from, the nearest first."""
    while pid in parents:
        pid = parents[pid]
        yield pid


class FastWriter:
    """A thread that writes channels at a multiple of real time, a tenth of a second at a time."""

    def __init__(self, session: rta_writers.Session, speed: int = SPEED) -> None:
        self.written = 0
        """Samples of each channel."""
        self._speed = speed
        self._writer = rta_writers.BurstWriter(session.options, unit="fast")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        count = RATE_HZ * self._speed // 10
        while not self._stopping.wait(0.1):
            numbers = np.arange(self.written, self.written + count, dtype=np.int64)
            times = START_NS + numbers * (NS_PER_S // RATE_HZ)
            channels = np.repeat(np.arange(1, FAST_CHANNELS + 1), count)
            values = np.sin(np.tile(numbers, FAST_CHANNELS) / 50 + channels)
            self._writer.samples(channels, np.tile(times, FAST_CHANNELS), values)
            self._writer.flush()
            self.written += count

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._writer.close()


def bench_long(quick: bool) -> Iterator[Case]:
    """A long session: its first picture, and one second of it."""
    if browsers.CHROMIUM is None or browsers.DRIVER is None:
        return
    seconds = QUICK_LONG_S if quick else LONG_S
    # Of the picture each round has a session that the gateway has never read.
    numbers = itertools.count()
    written = functools.cache(functools.partial(write_long, seconds, "zoomed"))
    what = f"viewer: {seconds} s of {LONG_CHANNELS} channels at {RATE_HZ} Hz"
    yield Case(
        f"{what}: first picture, against {FIRST_MAX_MS:g}",
        "ms",
        lambda: first_picture_ms(write_long(seconds, f"{next(numbers)}"), seconds),
        lambda: FIRST_MAX_MS,
        1.0,
        at_most=True,
    )
    yield Case(
        f"{what}: one second of it, against {ZOOM_MAX_MS:g}",
        "ms",
        lambda: zoom_ms(written(), seconds),
        lambda: ZOOM_MAX_MS,
        1.0,
        at_most=True,
    )


def write_long(seconds: int, name: str) -> str:
    """A closed session of some length; its identity."""
    identity = f"long-{name}"
    with (
        site().client.session(identity, stream=identity) as session,
        rta_writers.BurstWriter(session.options, unit="long") as writer,
    ):
        for minute in range(0, seconds, 60):
            viewer_site.write_wave(writer, range(1, LONG_CHANNELS + 1), 60 * RATE_HZ, first=minute * RATE_HZ)
    return identity


def first_picture_ms(identity: str, seconds: int) -> float:
    page = browser()
    page.driver.get("about:blank")
    started_s = time.perf_counter()
    page.driver.get(site().address(session=identity, panes="1.2-3"))
    wait_for_picture(page, seconds * RATE_HZ)
    return (time.perf_counter() - started_s) * 1000


def wait_for_picture(page: Browser, count: int) -> None:
    """Waits until lines stand for about so many samples, and nothing is loading."""

    def is_there() -> bool:
        drawn = viewer_site.lines(page)
        return bool(drawn) and all(
            not line["isLoading"] and abs(line["count"] - count) <= count / 100 for line in drawn
        )

    wait_until(is_there, timeout_s=60, what=f"a picture of {count} samples")


def zoom_ms(identity: str, seconds: int) -> float:
    first_picture_ms(identity, seconds)
    page = browser()
    started_s = time.perf_counter()
    viewer_site.zoom(page, seconds / 2, seconds / 2 + 1)
    wait_for_picture(page, RATE_HZ)
    return (time.perf_counter() - started_s) * 1000
