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

EXTRA_MS: Final = 500.0
RANGE_AGE_MS: Final = 1500.0
"""Twice, and half as much again, of what one attack may do to one principal. Here 20 principals, up to three attackers
and what earlier ones left to be served keep both cores of a small machine busy, and each of the round trips of a close
waits for its turn among them."""

SUPERVISOR_MIB: Final = 500.0
REDIS_MIB: Final = 1500.0
"""Memory on top of that before the attacks. Attackers fill streams and hashes of their own, as any writer may."""


def run(seed: str, advance: Callable[[], None], *, lasting_s: float) -> Result:
    """Attacks for so long; the seed decides which, how large and when."""
    with (
        attacked_host.running(measured.default_settings(), is_fresh=True) as host,
        watch.watching(host, HONEST, PAUSE_S) as watched,
    ):
        result = Result()
        resources = Resources(host)
        began_s = time.monotonic()
        _attack(host, random.Random(seed), began_s + lasting_s, resources, result)  # noqa: S311 - to be repeated
        is_alive = host.supervisor.process.poll() is None
        watched.finish()
        _judge(watched, result, began_s)
        result.figures += [
            Figure(NAME, "RSS + MiB", resources.rss - resources.start_rss, SUPERVISOR_MIB),
            Figure(NAME, "Redis + MiB", resources.used - resources.start_used, REDIS_MIB),
            Figure(NAME, "supervisor ended", int(not is_alive), 0),
        ]
    advance()
    return result


def _attack(host: Host, chooser: random.Random, until_s: float, resources: Resources, result: Result) -> None:
    """One attack after the other; some are at it at the same time."""
    running: list[Process] = []
    # The highest id ends a principal's own control stream: it would be the last attack of that principal.
    names = [name for name in ATTACKS if name != "highest id"]
    next_s = 0.0
    while (now_s := time.monotonic()) < until_s:
        running = [process for process in running if process.exit_code is None]
        if now_s >= next_s and len(running) < AT_ONCE:
            name = chooser.choice(names)
            count = max(1, round(ATTACKS[name].full * chooser.uniform(*SHARE)))
            result.counts[f"attack in the mix: {name}"] += 1
            running.append(measured.launch(host, name, count, HONEST[0]))
            next_s = now_s + chooser.uniform(*GAP_S)
        time.sleep(measured.LOOK_EVERY_S)
        resources.look()
    for process in running:
        process.kill()


def _judge(watched: Watch, result: Result, began_s: float) -> None:
    steps = [step for step in watched.steps() if step.at_s >= began_s]
    result.figures = figures.of_steps(NAME, steps, extra_ms=EXTRA_MS, range_age_ms=RANGE_AGE_MS)
    result.verdict = watched.verdict()
