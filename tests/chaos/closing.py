"""A session is closed while its writers are still at it. The barrier holds until all that is expected has arrived.

Without it readers are told that the session is over, and what is acknowledged after that nobody reads.
"""

import time
from collections.abc import Callable
from typing import Final

from tests.chaos import stamps, world
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
    with world.made(seed, world.KEEPS, supervisors=1, is_plain=is_plain) as own:
        for number in range(closes):
            total.add(_close_early(own, range(number * UNITS, (number + 1) * UNITS), barrier=barrier))
            own.counts["closed while written" if barrier else "closed without a barrier"] += 1
            advance()
        total.counts = own.counts
        total.runs = 1
    return total


def _close_early(own: World, units: range, *, barrier: bool) -> Result:
    session = own.open(f"session-{units.start}", units, stream=f"rig-{units.start}")
    own.writers.clear()
    words = ("--epochs", EPOCHS, "--groups", GROUPS, "--largest", LARGEST, "--pause-s", PAUSE_S)
    for unit in units:
        own.start_writer(unit, *map(str, words))
    wait_until(lambda: all(one.is_writing for one in own.writers), timeout_s=END_PATIENCE_S, what="writers")
    time.sleep(own.chooser.uniform(0, 0.3))
    ended = own.close(session, _planned(own, units) if barrier else None)
    for writer in own.writers:
        writer.wait(END_PATIENCE_S)
    result = Result()
    result.ended[ended.state.value] += 1
    result.verdict = own.judged(session)
    return result


def _planned(own: World, units: range) -> int:
    return sum(
        stamps.group_size(own.seed, unit, epoch, seq, LARGEST)
        for unit in units
        for epoch in range(EPOCHS)
        for seq in range(GROUPS)
    )
