"""Publishing to a Session Service: what 10,000 open sessions that grow cost, and what an open costs beside it."""

import atexit
import functools
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench import background_load, load
from bench.measure import Case
from rta_supervisor.publish.status import PublishStatus
from rta_wire import keys

CORES_MAX = 0.6
EVERY_S = 5.0
OPEN_PAUSE_S = 0.01
REPORTS = load.NAMES.reports(keys.DEFAULT_PRINCIPAL)


class Service(NamedTuple):
    """A Session Service in another process."""

    address: str
    pid: int


@functools.cache
def service() -> Service:
    """A Session Service that runs until this process ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.session_service"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    atexit.register(process.wait)
    atexit.register(process.stdin.close)
    return Service(f"127.0.0.1:{int(process.stdout.readline())}", process.pid)


class Publishing:
    """A daemon with open sessions, each of which grows all the time."""

    def __init__(self, *, sessions: int, seconds: float, opens: int) -> None:
        self.sessions, self.seconds, self.opens = sessions, seconds, opens
        self._steps = itertools.count(1)
        self._names = itertools.count()
        self.period_s = 0.0
        self._shares: list[float] = []
        """Cores that the publisher and the service took."""

    def cores(self) -> float:
        """Processor time a second of the process that publishes."""
        self._set_up(is_on=True)
        pids = (self._publisher(), service().pid)
        with self._growing():
            self._wait_until_published()
            used_s, started_s = [load.process_cpu_s(pid) for pid in pids], time.perf_counter()
            time.sleep(self.seconds)
            passed_s = time.perf_counter() - started_s
            self._shares = [
                (load.process_cpu_s(pid) - before_s) / passed_s for pid, before_s in zip(pids, used_s, strict=True)
            ]
        self.period_s = self._status().period_s
        return self._shares[0]

    def period(self) -> float:
        """How often time ranges are published then."""
        return self.period_s or (self.cores() and self.period_s)

    def p99_ms(self, *, is_on: bool) -> float:
        """How long the slowest of a hundred opens takes while all sessions grow."""
        self._set_up(is_on=is_on)
        with self._growing():
            if is_on:
                self._wait_until_published()
            return self._open()

    def p99_beside_ms(self) -> float:
        """The same without publishing, beside processes of its priority that compute as much as it does."""
        if not self._shares:
            self.cores()
        self._set_up(is_on=False)
        with self._growing(), background_load.running(self._shares):
            time.sleep(1.0)
            return self._open()

    def _open(self) -> float:
        return load.open_p99_ms((f"open-{next(self._names)}" for _ in range(self.opens)), OPEN_PAUSE_S)

    def _set_up(self, *, is_on: bool) -> None:
        rig = load.rig()
        publishing = {"RTA_PUBLISH__SESSION_ADDRESS": service().address, "RTA_PUBLISH__EVERY_S": f"{EVERY_S:g}"}

        def set_up() -> None:
            rig.sender.send(load.packed(load.sessions(self.sessions)))
            rig.start(**(publishing if is_on else {}))

        rig.only(("publishing", self, is_on), set_up)

    def _growing(self) -> "Growth":
        return Growth(self.sessions, self._steps)

    def _publisher(self) -> int:
        """The process that publishes, once it is there."""
        daemon = load.rig().daemon
        assert daemon is not None
        while not (children := Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()):
            time.sleep(load.POLL_S)
        return int(children[0])

    def _status(self) -> PublishStatus:
        raw: Any = load.rig().client.hget(load.NAMES.publishing(), keys.PUBLISHING_STATUS.decode())
        return msgspec.json.decode(raw, type=PublishStatus)

    def _wait_until_published(self) -> None:
        """Until the service has been told of every session, and the pace has settled after that."""
        key = load.NAMES.publishing()
        deadline_s = time.monotonic() + load.PATIENCE_S
        while (
            not load.rig().client.hexists(key, keys.PUBLISHING_STATUS.decode()) or self._status().oldest_s > EVERY_S * 2
        ):
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"not everything is published: {self._status()}")
            time.sleep(0.1)
        time.sleep(self.seconds / 2)


class Growth:
    """All sessions grow once in each period, at an even rate, within a block."""

    def __init__(self, sessions: int, steps: Iterator[int]) -> None:
        self._sessions = sessions
        self._steps = steps
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._grow)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _grow(self) -> None:
        sender = load.Sender(load.rig().server.socket_path)
        parts_per_period = 20
        while True:
            step = next(self._steps)
            numbers = range(1, self._sessions + 1)
            for part in range(parts_per_period):
                started_s = time.perf_counter()
                raws = [load.report(number, "u", step) for number in numbers[part::parts_per_period]]
                sender.send(load.packed(load.report_call(raw) for raw in raws))
                pause_s = EVERY_S * 0.9 / parts_per_period - (time.perf_counter() - started_s)
                if self._stopping.wait(max(0.0, pause_s)):
                    return


def bench_publish(quick: bool) -> Iterator[Case]:
    """What publishing costs, and whom."""
    publishing = Publishing(
        sessions=100 if quick else 10_000, seconds=1.0 if quick else 20.0, opens=20 if quick else 300
    )
    yield Case(
        f"{publishing.sessions:,} open sessions that grow, a time range each to a Session Service every 5 s; "
        "reference: 0.6 cores",
        "cores",
        publishing.cores,
        lambda: CORES_MAX,
        bar=1.0,
        at_most=True,
    )
    yield Case(
        f"the period that {publishing.sessions:,} open sessions get then; reference: the 5 s of the settings",
        "s",
        publishing.period,
        lambda: EVERY_S,
        bar=1.1,
        at_most=True,
    )
    yield Case(
        "p99 of an open while they are published; reference: the same without publishing",
        "ms",
        lambda: publishing.p99_ms(is_on=True),
        lambda: publishing.p99_ms(is_on=False),
        bar=1.25,
        at_most=True,
    )
    yield Case(
        "p99 of an open while they are published; reference: beside processes of that priority that compute as much",
        "ms",
        lambda: publishing.p99_ms(is_on=True),
        publishing.p99_beside_ms,
        bar=1.25,
        at_most=True,
    )
