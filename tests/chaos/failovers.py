"""Sentinels promote a replica that lagged: acknowledged samples are gone, everybody follows, and somebody is told."""

from collections.abc import Callable
from typing import Final

from tests.chaos import losses
from tests.chaos import world as chaos_world
from tests.chaos.result import Result
from tests.chaos.world import World
from tests.support import sentinels
from tests.support.waiting import wait_until

KIND: Final = "Sentinel failover"
PROMOTION_PATIENCE_S: Final = 120


def run(seed: str, advance: Callable[[], None], *, failovers: int) -> Result:
    """Failovers one after the other, each of servers and Sentinels of its own."""
    total = Result(runs=0)
    for number in range(failovers):
        total.add(_run_one(f"{seed}/{number}"))
        advance()
    total.runs = 1
    return total


def _run_one(seed: str) -> Result:
    with (
        chaos_world.running(seed, chaos_world.FORGETS, supervisors=0) as world,
        sentinels.watching(world.server) as watched,
    ):
        world.address = watched.url
        world.start_supervisors(losses.SUPERVISORS)
        result = losses.lose(world, 0, KIND, lambda: _fail_over(world, watched))
        result.counts = world.counts
        return result


def _fail_over(world: World, watched: sentinels.Watched) -> None:
    """The replica has what was written until now and nothing of what is acknowledged from here on."""
    with world.client as client:
        wait_until(lambda: client.wait(1, 1000) == 1, timeout_s=losses.END_PATIENCE_S, what="the replica")
    watched.between.cut()
    losses.go_on(world)
    watched.master.kill()
    wait_until(
        lambda: watched.replica_role() == "master", timeout_s=PROMOTION_PATIENCE_S, what="the promotion of the replica"
    )
    world.replace_server(watched.replica)
