"""Requests with a payload are served one at a time, and principals take turns."""

from typing import Any

import anyio

from rta_supervisor.control.payloads.payload_store import PayloadStore
from rta_supervisor.settings import settings


async def test_a_large_request_waits_for_one_of_another_principal_and_not_for_all() -> None:
    """One that comes last of a flood of another principal is the third that is served."""
    link: Any = None
    payloads = PayloadStore(link, settings.Settings())
    served: list[str] = []

    async def serve(principal: str) -> None:
        async with payloads.turn(principal):
            await anyio.lowlevel.checkpoint()
            served.append(principal)

    async with anyio.create_task_group() as tasks:
        for principal in ["flood"] * 5 + ["victim"]:
            tasks.start_soon(serve, principal)
    assert served.index("victim") <= 2
    assert len(served) == 6
