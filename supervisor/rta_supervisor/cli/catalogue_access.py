"""How commands read the catalogue: the file or the database itself, whether or not a supervisor runs; and the form in
which they print its rows.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

import anyio
import msgspec

from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow, Query
from rta_supervisor.cli import output
from rta_supervisor.settings import settings
from rta_wire import day_streams, errors
from rta_wire.session import State

T = TypeVar("T")

PAGE_ROWS: Final = 1000
"""Rows that are in memory at a time, however many a search finds."""


class CatalogueLine(msgspec.Struct, frozen=True):
    """One session of the catalogue, as `sessions list --all --json` and `sessions export` print it."""

    identity: str
    identifier: str
    state: State
    stream: str
    stream_session_id: int
    principal: str
    opened_ms: int
    updated_ms: int
    bursts: int
    samples: int
    raw_bytes: int
    stored_bytes: int
    start_ns: int | None
    end_ns: int | None
    version: int


def line_fields(row: CatalogueRow) -> dict[str, Any]:
    """Fields of a `CatalogueLine` for a row."""
    return {
        "identity": row.identity,
        "identifier": str(parse_document(row).get("identifier", "")),
        "state": row.state,
        "stream": row.stream,
        "stream_session_id": row.stream_session_id,
        "principal": row.principal,
        "opened_ms": row.opened_ms,
        "updated_ms": row.updated_ms,
        "version": row.version,
        **msgspec.structs.asdict(row.totals),
    }


def parse_document(row: CatalogueRow) -> dict[str, Any]:
    """Session JSON of a row. Empty where it can't be parsed: one damaged row does not stop a search."""
    try:
        return msgspec.json.decode(row.json, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError):
        return {}


def run(config: settings.Settings, work: Callable[[Catalogue], Awaitable[T]]) -> T:
    """Open the catalogue for reading, run `work` with it and return its result.

    Raises `CatalogueUnavailable` where the catalogue can't be read.
    """
    return anyio.run(with_catalogue, config, work)


async def with_catalogue(config: settings.Settings, work: Callable[[Catalogue], Awaitable[T]]) -> T:
    """Open the catalogue for reading and run `work` with it, for a caller inside of an event loop."""
    catalogue = factory.create_read_only(config)
    try:
        return await work(catalogue)
    finally:
        await catalogue.close()


async def _check_stream(catalogue: Catalogue, stream: str) -> None:
    known = await catalogue.streams()
    if not any(day_streams.is_stream_of(name, stream) for name in known):
        raise errors.NoSuchStream(stream=stream, nearest=output.nearest(stream, map(day_streams.source_of, known)))


async def search_rows(
    catalogue: Catalogue, query: Query, *, limit: int = 0, before: tuple[int, str] | None = None
) -> AsyncIterator[CatalogueRow]:
    """Rows that the query finds, newest first, read page by page. `limit`: 0 for all.

    Raises where there are none because the catalogue never had the stream of the query.
    """
    remaining = limit
    is_first = True
    while True:
        page_size = min(PAGE_ROWS, remaining) if limit else PAGE_ROWS
        page = await catalogue.find(query, limit=page_size, before=before)
        if is_first and not page and query.stream:
            await _check_stream(catalogue, query.stream)
        is_first = False
        for row in page:
            yield row
        remaining -= len(page)
        if len(page) < page_size or (limit and not remaining):
            return
        before = page[-1].page_cursor
