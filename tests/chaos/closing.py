"""A session is closed while its writers are still at it. The barrier holds until all that is expected has arrived.

Without it readers see the end of the session, and nobody reads what is acknowledged after that.
"""

import time
from collections.abc import Callable
from typing import Final

from tests.chaos import stamps
from tests.chaos import world as chaos_world
from tests.chaos.result import Result
from tests.chaos.world import World
from tests.support.waiting import wait_until

UNITS: Final = 2
EPOCHS: Final = 3
GROUPS: Final = 10
LARGEST: Final = 2000
PAUSE_S: Final = 0.02
END_PATIENCE_S: Final = 120


def run(seed: str, advance: Callable[[], None], *, closes: int, barrier: bool, is_plain: bool = False) -> Result:
    """Closes one after the other, each of a session of its own. Without a barrier nothing is said to be expected."""
    total = Result(runs=0)
    with chaos_world.running(seed, chaos_world.KEEPS, supervisors=1, is_plain=is_plain) as world:
        for number in range(closes):
            total.add(_close_early(world, range(number * UNITS, (number + 1) * UNITS), barrier=barrier))
            world.counts["closed while written" if barrier else "closed without a barrier"] += 1
            advance()
        total.counts = world.counts
        total.runs = 1
    return total


def _close_early(world: World, units: range, *, barrier: bool) -> Result:
    session = world.open(f"session-{units.start}", units, stream=f"rig-{units.start}")
    world.writers.clear()
    arguments = ("--epochs", EPOCHS, "--groups", GROUPS, "--largest", LARGEST, "--pause-s", PAUSE_S)
    for unit in units:
        world.start_writer(unit, *map(str, arguments))
    wait_until(lambda: all(writer.is_writing for writer in world.writers), timeout_s=END_PATIENCE_S, what="writers")
    time.sleep(world.chooser.uniform(0, 0.3))
    ended = world.close(session, _planned(world, units) if barrier else None)
    for writer in world.writers:
        writer.wait(END_PATIENCE_S)
    result = Result()
    result.ended[ended.state.value] += 1
    result.verdict = world.judged(session)
    return result


def _planned(world: World, units: range) -> int:
    return sum(
        stamps.group_size(world.seed, unit, epoch, seq, LARGEST)
        for unit in units
        for epoch in range(EPOCHS)
        for seq in range(GROUPS)
    )
