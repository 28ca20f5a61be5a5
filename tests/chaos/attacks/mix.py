"""All attackers at once, in random order and size, beside 20 honest principals: nobody honest notices."""

import random
import time
from collections.abc import Callable
from typing import Final

from tests.chaos.attacks import figures, measured, watch
from tests.chaos.attacks import host as attacked_host
from tests.chaos.attacks.attackers import ATTACKS
from tests.chaos.attacks.figures import Figure
from tests.chaos.attacks.host import HONEST, Host
from tests.chaos.attacks.watch import Resources, Watch
from tests.chaos.processes import Process
from tests.chaos.result import Result

NAME: Final = "mix"
PAUSE_S: Final = 1.0
GAP_S: Final = (0.2, 2.0)
SHARE: Final = (0.02, 0.3)
"""How large an attack is, of its full size."""

AT_ONCE: Final = 3
QUIET_S: Final = 5.0
SUPERVISOR_MIB: Final = 500.0
REDIS_MIB: Final = 1500.0
"""Memory on top of that before the attacks. Attackers fill streams and hashes of their own, as any writer may."""


def run(seed: str, advance: Callable[[], None], *, attacks: int) -> Result:
    """So many attacks, chosen by the seed."""
    chooser = random.Random(seed)  # noqa: S311 - a run that can be repeated needs no secrets
    with (
        attacked_host.running(measured.default_settings(), is_fresh=True) as host,
        watch.watching(host, HONEST, PAUSE_S) as watched,
    ):
        result = Result()
        resources = Resources(host)
        began_s = time.monotonic()
        _attack(host, chooser, attacks, resources, result)
        for _ in range(int(QUIET_S / 0.1)):
            time.sleep(0.1)
            resources.look()
        is_alive = host.supervisor.process.poll() is None
        watched.finish()
        _judge(watched, result, began_s)
        result.figures += [
            Figure(NAME, "supervisor more MiB", resources.rss - resources.start_rss, SUPERVISOR_MIB),
            Figure(NAME, "Redis more MiB", resources.used - resources.start_used, REDIS_MIB),
            Figure(NAME, "supervisor ended", int(not is_alive), 0),
        ]
    advance()
    return result


def _attack(host: Host, chooser: random.Random, attacks: int, resources: Resources, result: Result) -> None:
    """One attack after the other; some are at it at the same time."""
    running: list[Process] = []
    # The highest id ends a principal's own control stream: it would be the last attack of that principal.
    names = [name for name in ATTACKS if name != "highest id"]
    for _ in range(attacks):
        name = chooser.choice(names)
        count = max(1, round(ATTACKS[name].full * chooser.uniform(*SHARE)))
        result.counts[f"attack in the mix: {name}"] += count
        running.append(measured.launch(host, name, count))
        next_s = time.monotonic() + chooser.uniform(*GAP_S)
        while time.monotonic() < next_s or sum(process.exit_code is None for process in running) >= AT_ONCE:
            time.sleep(0.1)
            resources.look()
    for process in running:
        process.wait(watch.END_PATIENCE_S)


def _judge(watched: Watch, result: Result, began_s: float) -> None:
    steps = [step for step in watched.steps() if step.at_s >= began_s]
    result.figures = figures.of_steps(NAME, steps)
    result.verdict = watched.verdict()
