"""Requests before reports: how long the handling of reports waits."""

import anyio
import anyio.lowlevel

from rta_supervisor.control.request_priority import RequestPriority

LONG_S = 60.0


async def test_reports_wait_while_requests_are_served() -> None:
    """They go on as soon as every request is served, and not before."""
    request_priority = RequestPriority()
    order: list[str] = []

    async def handle_reports() -> None:
        await request_priority.yield_to_requests(LONG_S)
        order.append("waited")

    async with anyio.create_task_group() as tasks:
        with request_priority.serving():
            with request_priority.serving():
                tasks.start_soon(handle_reports)
                await anyio.wait_all_tasks_blocked()
            await anyio.wait_all_tasks_blocked()
            order.append("requests served")
    assert order == ["requests served", "waited"]


async def test_nobody_waits_longer_than_allowed() -> None:
    """What is left of the time comes back, and none of it is used where no request is served."""
    request_priority = RequestPriority()
    assert await request_priority.yield_to_requests(LONG_S) == LONG_S
    with request_priority.serving():
        assert await request_priority.yield_to_requests(0.01) <= 0
        assert await request_priority.yield_to_requests(0) == 0
