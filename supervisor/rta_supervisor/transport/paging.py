"""Many things at once, a slice at a time, so that others have their turn."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio

In = TypeVar("In")
Out = TypeVar("Out")

PAGE_SIZE: Final = 500
WORKERS: Final = 2


def pages(items: Sequence[In], size: int) -> list[Sequence[In]]:
    """One after the other, each at most so long."""
    return [items[at : at + size] for at in range(0, len(items), size)]


async def map_pages(items: Sequence[In], work: Callable[[Sequence[In]], Awaitable[list[Out]]]) -> list[Out]:
    """Work on many in slices, two at a time: we make one ready while Redis does the other, and others have their turn.

    Gives what all slices gave, in order. The first error ends it.
    """
    slices = pages(items, PAGE_SIZE)
    if len(slices) == 1:
        return await work(slices[0])
    done: list[list[Out]] = [[] for _ in slices]
    todo = iter(enumerate(slices))

    async def worker() -> None:
        for number, part in todo:
            done[number] = await work(part)

    try:
        async with anyio.create_task_group() as workers:
            for number in range(WORKERS):
                workers.start_soon(worker, name=f"slices-{number}")
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group
    return [one for part in done for one in part]
