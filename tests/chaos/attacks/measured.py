"""One attack at full size beside a victim that is measured, on a host of its own with the default limits."""

import resource
import signal
import time
from collections.abc import Callable
from typing import Any, Final

import redis

from rta_supervisor.settings import settings
from tests.chaos.attacks import attackers, figures
from tests.chaos.attacks import host as attacked_host
from tests.chaos.attacks.attackers import ATTACKS, SOURCE_ADDRESS
from tests.chaos.attacks.figures import Figure
from tests.chaos.attacks.host import VICTIM, Host
from tests.chaos.attacks.watch import END_PATIENCE_S, Resources, Watch, watching
from tests.chaos.processes import Process
from tests.chaos.result import Result
from tests.support import supervisors
from tests.support.waiting import wait_until

PAUSE_S: Final = 0.03
SHORTEST_S: Final = 12.0
LOOK_EVERY_S: Final = 0.1
SLOW_US: Final = 5000
LONGEST_S: Final = 45.0
RESTARTED_MS: Final = 15_000.0
NAMED_PATIENCE_S: Final = 5.0
WITHIN_LIMITS: Final = frozenset({"closes that wait", "taken identities"})
"""Attacks that a principal has every right to: nobody has to be named."""

NOT_IN_REDIS: Final = frozenset({"half requests"})
"""Attacks of which Redis knows nothing, and so the doctor does not."""

FEW_FILES: Final = 128
WITH_FEW_FILES: Final = frozenset({"half requests"})
"""Attacks on a supervisor that may open no more files than this, as where nobody raised the limit."""

WITH_RESTART: Final = frozenset({"closes from the future"})


def default_settings() -> dict[str, str]:
    """The defaults of all that tests make quicker elsewhere."""
    defaults = settings.Settings()
    values = {}
    for name in supervisors.QUICK:
        section, key = name.removeprefix("RTA_").lower().split("__")
        values[name] = str(getattr(getattr(defaults, section), key))
    return {**values, **attacked_host.OWN_SETTINGS}


def launch(host: Host, name: str, count: int, victim: str) -> Process:
    """An attack as a program. `victim`: the principal whose open session is asked for."""
    url, taken = host.writer_url(ATTACKS[name].principal), f"{victim}-live"
    words = ("--url", url, "--http", host.http_address, "--taken", taken, "--count", str(count))
    return Process(("tests.chaos.attacks.attackers", name, *words), host.directory / "attackers.log")


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


def run(seed: str, advance: Callable[[], None], *, name: str) -> Result:
    """An attack, until nothing is left of it to be served."""
    del seed
    with (
        attacked_host.running(default_settings(), is_fresh=True) as host,
        watching(host, [VICTIM], PAUSE_S) as watch,
    ):
        try:
            result = _attack(host, watch, name)
        except redis.exceptions.RedisError as error:
            raise AssertionError(f"Redis did not answer: {error}") from error
    advance()
    return result


def _attack(host: Host, watch: Watch, name: str) -> Result:
    kind = ATTACKS[name]
    if name in WITH_FEW_FILES:
        resource.prlimit(host.supervisor.process.pid, resource.RLIMIT_NOFILE, (FEW_FILES, FEW_FILES))
    resources = Resources(host)
    began_s = time.monotonic()
    with host.admin() as client:
        client.config_set("slowlog-log-slower-than", SLOW_US)
        client.slowlog_reset()
        attack = launch(host, name, kind.full, VICTIM)
        _wait_until_over(attack, client, kind.principal, resources)
        calls_ms = _slow_calls_ms(client)
    over_s = time.monotonic()
    is_alive = host.supervisor.process.poll() is None
    own = resources.figures(name)
    quiet = figures.of_steps(name, [step for step in watch.steps() if step.at_s < began_s])
    later = _after_restart(host, watch, name) if name in WITH_RESTART else []
    watch.finish()
    steps = [step for step in watch.steps() if began_s <= step.at_s <= over_s]
    result = Result(verdict=watch.verdict())
    result.counts[f"attack: {name}"] = kind.full
    result.figures = [
        Figure(name, "quiet p99 ms", max(figure.value for figure in quiet if figure.name in figures.STEP_NAMES)),
        *figures.of_steps(name, steps),
        Figure(name, "longest call of ours ms", max(calls_ms, default=0.0)),
        *own,
        Figure(name, "losses of data suspected", len(host.events("redis_lost_data")), 0),
        Figure(name, "attack failed", int(attack.exit_code not in (0, attackers.REFUSED, -signal.SIGKILL)), 0),
        Figure(name, "supervisor ended", int(not is_alive), 0),
        *later,
        *([] if name in WITHIN_LIMITS else _named(host, name)),
    ]
    return result


def _wait_until_over(attack: Process, client: redis.Redis, principal: str, resources: Resources) -> None:
    """Until it was sent and settled, and long enough to measure the others; at last for `LONGEST_S`."""
    began_s = time.monotonic()
    while (lasted_s := time.monotonic() - began_s) < LONGEST_S:
        time.sleep(LOOK_EVERY_S)
        resources.look()
        if lasted_s > SHORTEST_S and attack.exit_code is not None and not backlog(client, principal):
            return
    attack.kill()


def _slow_calls_ms(client: redis.Redis) -> list[float]:
    """How long server functions kept Redis: supervisors alone call them."""
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
    missing: dict[str, Callable[[], object]] = {"log": lambda: host.events_naming(who)}
    if name not in NOT_IN_REDIS:
        missing["doctor"] = lambda: host.doctor_naming(who)
    found = []
    for where, look in missing.items():
        try:
            wait_until(look, timeout_s=NAMED_PATIENCE_S, what=where)
            found.append(Figure(name, f"not named by the {where}", 0, 0))
        except AssertionError:
            found.append(Figure(name, f"not named by the {where}", 1, 0))
    return found
