"""Pages of items: all results in order, and the first error as it is."""

from typing import Any

import anyio
import pytest
import redis

from rta_supervisor.transport import paging


async def test_results_of_all_pages_come_in_order() -> None:
    """Results come in order, however many pages there are, and the first error is raised as it is."""

    async def double(items: Any) -> list[int]:
        await anyio.lowlevel.checkpoint()
        return [2 * item for item in items]

    for count in (0, 1, paging.PAGE_SIZE, 3 * paging.PAGE_SIZE + 1):
        assert await paging.map_pages(range(count), double) == [2 * item for item in range(count)]

    async def fail(items: Any) -> list[int]:
        raise redis.exceptions.ConnectionError(str(items[0]))

    with pytest.raises(redis.exceptions.ConnectionError):
        await paging.map_pages(range(3 * paging.PAGE_SIZE), fail)
