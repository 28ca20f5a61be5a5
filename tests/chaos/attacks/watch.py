"""Measures a host from the outside while it is attacked: victims, a bare client, an operator, memory and log."""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import redis

from tests.chaos import oracle, stamps
from tests.chaos.attacks import recording
from tests.chaos.attacks.figures import Figure
from tests.chaos.attacks.host import STAFF, Host
from tests.chaos.attacks.victim import SAMPLES
from tests.chaos.attacks.webhook_probe import WebhookProbe
from tests.chaos.processes import Process
from tests.support.waiting import wait_until

WARM_CYCLES: Final = 50
END_PATIENCE_S: Final = 120
SUPERVISOR_MIB: Final = 300.0
REDIS_MIB: Final = 500.0
"""Memory on top of that before the attack; its own marks and messages take most of that in Redis."""

LOG_LINES: Final = 5000.0
"""Of an attack and of the victim's sessions. Sessions that are opened have a line each, whoever opens them."""

CPU_PERCENT: Final = 60.0
"""Of a supervisor whose attacker only holds connections. One that can't accept any more must not try all the time."""

MIB: Final = 1 << 20


class Watch:
    """Programs that measure a host from the outside, and what they noted."""

    def __init__(self, host: Host, victims: Sequence[str], pause_s: float) -> None:
        self._host = host
        self._webhooks = WebhookProbe(host)
        self._stop = host.directory / "stop"
        self.victims = victims
        notes = {name: host.directory / f"{name}.notes" for name in ("victim", "probe", "operator")}
        common = {name: ("--notes", str(path), "--stop", str(self._stop)) for name, path in notes.items()}
        self._notes = list(notes.values())
        self._processes = [
            self._start(
                "victim", *victims, "--url", host.writer_url("NAME"), "--pause-s", str(pause_s), *common["victim"]
            ),
            self._start(
                *("probe", "--url", host.url("reader"), "--http", host.http_address),
                *("--live", f"{victims[0]}-live", *common["probe"]),
            ),
            self._start(
                *("operator_commands", "--url", host.url("operator"), "--staff-url", host.writer_url(STAFF)),
                *("--staff", STAFF, *common["operator"]),
            ),
        ]

    def _start(self, module: str, *words: str) -> Process:
        return Process((f"tests.chaos.attacks.{module}", *words), self._host.directory / f"{module}.log")

    def steps(self) -> list[recording.Step]:
        return [*recording.read(self._notes), *self._webhooks.steps]

    def wait_until_warm(self) -> None:
        def is_warm() -> bool:
            done = [step.what for step in self.steps()]
            return done.count("close") >= WARM_CYCLES and {"operator abandon", "range age", "webhook"} <= set(done)

        wait_until(is_warm, timeout_s=END_PATIENCE_S, what="victims that work")

    def finish(self) -> None:
        self._webhooks.stop()
        self._stop.touch()
        for process in self._processes:
            process.wait(END_PATIENCE_S)

    def kill(self) -> None:
        self._webhooks.stop()
        for process in self._processes:
            if process.exit_code is None:
                process.kill()

    def verdict(self) -> oracle.Verdict:
        """What became of the samples of all short sessions, by a reader that shares no code with us."""
        verdict = oracle.Verdict()
        expected = stamps.codes(0, 0, 0, SAMPLES)
        numbers = [int(step.detail) for step in self.steps() if step.what == "write" and not step.error]
        sessions = {
            number: session
            for name in self.victims
            for number, session in oracle.follow(oracle.read(self._host.port, f"{name}.short")).items()
        }
        for number in numbers:
            verdict += oracle.judge(sessions.get(number), expected)
        return verdict


@contextlib.contextmanager
def watching(host: Host, victims: Sequence[str], pause_s: float) -> Iterator[Watch]:
    watch = Watch(host, victims, pause_s)
    try:
        watch.wait_until_warm()
        yield watch
    finally:
        watch.kill()


class Resources:
    """The most memory that supervisor and Redis had, the supervisor's processor time, and how many lines it logged."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._client = host.admin()
        self._lines = len(host.events())
        self.rss = self.used = self._cpu = 0.0
        self.start_rss, self.start_used = self._look()
        self._start = (time.monotonic(), self._cpu_s())

    def _look(self) -> tuple[float, float]:
        with contextlib.suppress(redis.exceptions.RedisError, OSError):
            pages = int(Path(f"/proc/{self._host.supervisor.process.pid}/statm").read_text().split()[1])
            info: Any = self._client.info("memory")
            return pages * 4096 / MIB, info["used_memory"] / MIB
        return 0.0, 0.0

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._host.supervisor.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def look(self) -> None:
        rss, used = self._look()
        self.rss, self.used = max(self.rss, rss), max(self.used, used)

    def figures(self, attack: str) -> list[Figure]:
        began_s, began_cpu_s = self._start
        with contextlib.suppress(OSError):
            self._cpu = (self._cpu_s() - began_cpu_s) / (time.monotonic() - began_s)
        return [
            Figure(attack, "CPU %", 100 * self._cpu, CPU_PERCENT if attack == "half requests" else None),
            Figure(attack, "RSS + MiB", self.rss - self.start_rss, SUPERVISOR_MIB),
            Figure(attack, "Redis + MiB", self.used - self.start_used, REDIS_MIB),
            Figure(
                attack, "log lines", len(self._host.events()) - self._lines, None if attack == "opens" else LOG_LINES
            ),
        ]
