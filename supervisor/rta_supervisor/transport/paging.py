"""Works on long lists page by page, so that other tasks and other clients of Redis have their turn."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import anyio

In = TypeVar("In")
Out = TypeVar("Out")

PAGE_SIZE: Final = 500
WORKERS: Final = 2
"""One page is prepared while Redis works on the other."""


def pages(items: Sequence[In], size: int) -> list[Sequence[In]]:
    """The items in order, in pages of at most `size`."""
    return [items[at : at + size] for at in range(0, len(items), size)]


async def map_pages(
    items: Sequence[In],
    work: Callable[[Sequence[In]], Awaitable[list[Out]]],
    *,
    size: int = PAGE_SIZE,
    at_a_time: int = WORKERS,
) -> list[Out]:
    """The results of `work` for all pages in order. `at_a_time` pages are worked on; the first error is raised."""
    all_pages = pages(items, size)
    if len(all_pages) == 1:
        return await work(all_pages[0])
    results: list[list[Out]] = [[] for _ in all_pages]
    remaining = iter(enumerate(all_pages))

    async def worker() -> None:
        for number, page in remaining:
            results[number] = await work(page)

    try:
        async with anyio.create_task_group() as workers:
            for number in range(at_a_time):
                workers.start_soon(worker, name=f"pages-{number}")
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group
    return [result for page in results for result in page]
