"""Who goes first, and for how long the others wait."""

import anyio
import anyio.lowlevel

from rta_supervisor.control.priority import Priority

LONG_S = 60.0


async def test_work_that_can_wait_lets_a_claim_pass() -> None:
    """It goes on as soon as every claim is over, and not before."""
    priority = Priority()
    order: list[str] = []

    async def give_way() -> None:
        await priority.yield_to_claims(LONG_S)
        order.append("waited")

    async with anyio.create_task_group() as tasks:
        with priority.prioritized():
            with priority.prioritized():
                tasks.start_soon(give_way)
                await anyio.wait_all_tasks_blocked()
            await anyio.wait_all_tasks_blocked()
            order.append("claim over")
    assert order == ["claim over", "waited"]


async def test_nobody_waits_longer_than_allowed() -> None:
    """What is left of the time comes back, and none of it is used where nothing is claimed."""
    priority = Priority()
    assert await priority.yield_to_claims(LONG_S) == LONG_S
    with priority.prioritized():
        assert await priority.yield_to_claims(0.01) <= 0
        assert await priority.yield_to_claims(0) == 0
