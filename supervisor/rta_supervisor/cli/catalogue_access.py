"""How a command looks into the catalogue: at the file or the database itself, whether or not anybody runs."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

import anyio

from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.model import Catalogue, CatalogueRow, Query
from rta_supervisor.settings import settings

T = TypeVar("T")

PAGE: Final = 1000
"""Rows that are in memory at a time, of however many there are."""


def run(loaded: settings.Settings, work: Callable[[Catalogue], Awaitable[T]]) -> T:
    """What `work` gives, or an error with a name and an exit code."""
    return anyio.run(with_catalogue, loaded, work)


async def with_catalogue(loaded: settings.Settings, work: Callable[[Catalogue], Awaitable[T]]) -> T:
    catalogue = factory.create_read_only(loaded)
    try:
        return await work(catalogue)
    finally:
        await catalogue.close()


async def search_rows(
    catalogue: Catalogue, query: Query, *, limit: int = 0, before: tuple[int, str] | None = None
) -> AsyncIterator[CatalogueRow]:
    """What is found, newest first, page by page. `limit`: 0 for all."""
    left = limit
    while True:
        size = min(PAGE, left) if limit else PAGE
        page = await catalogue.find(query, limit=size, before=before)
        for row in page:
            yield row
        left -= len(page)
        if len(page) < size or (limit and not left):
            return
        before = page[-1].page_cursor
