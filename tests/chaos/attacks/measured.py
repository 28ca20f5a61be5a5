"""One attack at full size beside a victim that is measured, on a host of its own with the default limits."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import redis

from rta_supervisor.settings import settings
from tests.chaos import oracle, stamps
from tests.chaos.attacks import figures, recording
from tests.chaos.attacks import host as attacked_host
from tests.chaos.attacks.attackers import ATTACKS, SOURCE_ADDRESS
from tests.chaos.attacks.figures import Figure
from tests.chaos.attacks.host import STAFF, VICTIM, Host
from tests.chaos.attacks.victim import SAMPLES
from tests.chaos.processes import Process
from tests.chaos.result import Result
from tests.support import supervisors
from tests.support.waiting import wait_until

PAUSE_S: Final = 0.03
WARM_CYCLES: Final = 20
SHORTEST_S: Final = 12.0
LONGEST_S: Final = 45.0
END_PATIENCE_S: Final = 120
RESTARTED_MS: Final = 15_000.0
NAMED_PATIENCE_S: Final = 5.0
WITHIN_LIMITS: Final = frozenset({"closes that wait"})
"""Attacks that a principal has every right to: nobody has to be named."""

WITH_RESTART: Final = frozenset({"closes from the future"})
SUPERVISOR_MIB: Final = 300.0
REDIS_MIB: Final = 500.0
"""Memory on top of that before the attack; its own marks and messages take most of that in Redis."""

LOG_LINES: Final = 5000.0
"""Of an attack and of the victim's sessions. Sessions that are opened have a line each, whoever opens them."""

MIB: Final = 1 << 20


def default_settings() -> dict[str, str]:
    """The defaults of all that tests make quicker elsewhere."""
    defaults = settings.Settings()
    values = {}
    for name in supervisors.QUICK:
        section, key = name.removeprefix("RTA_").lower().split("__")
        values[name] = str(getattr(getattr(defaults, section), key))
    return {**values, **attacked_host.OWN_SETTINGS}


class Watch:
    """Programs that measure a host from the outside, and what they noted."""

    def __init__(self, host: Host, victims: Sequence[str], pause_s: float) -> None:
        self._host = host
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
        return recording.read(self._notes)

    def wait_until_warm(self) -> None:
        def is_warm() -> bool:
            done = [step.what for step in self.steps()]
            return done.count("close") >= WARM_CYCLES and "operator abandon" in done and "range age" in done

        wait_until(is_warm, timeout_s=END_PATIENCE_S, what="victims that work")

    def finish(self) -> None:
        self._stop.touch()
        for process in self._processes:
            process.wait(END_PATIENCE_S)

    def kill(self) -> None:
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
    """The most memory that supervisor and Redis had, and how many lines were logged."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._client = host.admin()
        self._lines = len(host.events())
        self.rss = self.used = 0.0
        self.start_rss, self.start_used = self._look()

    def _look(self) -> tuple[float, float]:
        with contextlib.suppress(redis.exceptions.RedisError, OSError):
            pages = int(Path(f"/proc/{self._host.supervisor.process.pid}/statm").read_text().split()[1])
            info: Any = self._client.info("memory")
            return pages * 4096 / MIB, info["used_memory"] / MIB
        return 0.0, 0.0

    def look(self) -> None:
        rss, used = self._look()
        self.rss, self.used = max(self.rss, rss), max(self.used, used)

    def figures(self, attack: str) -> list[Figure]:
        return [
            Figure(attack, "supervisor more MiB", self.rss - self.start_rss, SUPERVISOR_MIB),
            Figure(attack, "Redis more MiB", self.used - self.start_used, REDIS_MIB),
            Figure(
                attack, "log lines", len(self._host.events()) - self._lines, None if attack == "opens" else LOG_LINES
            ),
        ]


def launch(host: Host, name: str, count: int) -> Process:
    url = host.writer_url(ATTACKS[name].principal)
    words = ("tests.chaos.attacks.attackers", name, "--url", url, "--http", host.http_address, "--count", str(count))
    return Process(words, host.directory / "attackers.log")


def backlog(client: redis.Redis, principal: str) -> int:
    """Messages of a principal that are not settled."""
    total = 0
    for kind in ("req", "ctl"):
        try:
            groups: Any = client.xinfo_groups(f"rtas:{kind}:{principal}")
        except redis.exceptions.ResponseError:  # nothing was ever sent
            continue
        total += sum(int(group["pending"]) + int(group["lag"] or 0) for group in groups)
    return total


def run(seed: str, advance: Any, *, name: str) -> Result:
    """An attack, until nothing is left of it to be served."""
    del seed
    with attacked_host.running(default_settings(), is_fresh=True) as host, watching(host, [VICTIM], PAUSE_S) as watch:
        result = _attack(host, watch, name)
    advance()
    return result


def _attack(host: Host, watch: Watch, name: str) -> Result:
    kind = ATTACKS[name]
    resources = Resources(host)
    with host.admin() as client:
        client.config_set("slowlog-log-slower-than", 5000)
        client.slowlog_reset()
        began_s = time.monotonic()
        attack = launch(host, name, kind.full)
        while time.monotonic() - began_s < LONGEST_S:
            time.sleep(0.1)
            resources.look()
            is_over = attack.exit_code is not None and not backlog(client, kind.principal)
            if is_over and time.monotonic() - began_s > SHORTEST_S:
                break
        over_s = time.monotonic()
        if attack.exit_code is None:
            attack.kill()
        calls = _slow_calls(client)
    is_alive = host.supervisor.process.poll() is None
    restarted = _after_restart(host, watch, name) if name in WITH_RESTART else []
    watch.finish()
    steps = [step for step in watch.steps() if began_s <= step.at_s <= over_s]
    result = Result(verdict=watch.verdict())
    result.counts[f"attack: {name}"] = kind.full
    result.figures = [
        *figures.of_steps(name, steps),
        Figure(name, "longest call of ours ms", max(calls, default=0.0)),
        *resources.figures(name),
        Figure(name, "supervisor ended", int(not is_alive), 0),
        *restarted,
        *([] if name in WITHIN_LIMITS else _named(host, name)),
    ]
    return result


def _slow_calls(client: redis.Redis) -> list[float]:
    """How long server functions kept Redis: supervisors alone call them. In ms."""
    slow: Any = client.slowlog_get(1000)
    return [entry["duration"] / 1000 for entry in slow if bytes(entry["command"]).upper().startswith(b"FCALL")]


def _after_restart(host: Host, watch: Watch, name: str) -> list[Figure]:
    """How long a victim waits after kill -9 and a start on what the attack left."""
    host.restart_supervisor()
    began_s = time.monotonic()
    wait_until(
        lambda: any(step.what == "close" and step.at_s > began_s for step in watch.steps()),
        timeout_s=END_PATIENCE_S,
        what="a victim that is served again",
    )
    served_s = time.monotonic()
    time.sleep(SHORTEST_S)
    steps = [step for step in watch.steps() if step.at_s > served_s]
    later = [
        Figure(name, f"after a restart: {figure.name}", figure.value, figure.limit)
        for figure in figures.of_steps(name, steps)
        if figure.name.endswith("p99 ms") and figure.limit is not None
    ]
    return [Figure(name, "served after a restart ms", (served_s - began_s) * 1000, RESTARTED_MS), *later]


def _named(host: Host, name: str) -> list[Figure]:
    """Whether log and doctor name who did it."""
    who = SOURCE_ADDRESS if name == "half requests" else ATTACKS[name].principal
    missing = {"log": lambda: host.events_naming(who), "doctor": lambda: host.doctor_naming(who)}
    found = []
    for where, look in missing.items():
        try:
            wait_until(look, timeout_s=NAMED_PATIENCE_S, what=where)
            found.append(Figure(name, f"not named by the {where}", 0, 0))
        except AssertionError:
            found.append(Figure(name, f"not named by the {where}", 1, 0))
    return found
