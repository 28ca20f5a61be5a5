"""What a catalogue answers, put into SQL. Who has the connection, and what its errors mean, is up to the heirs."""

import abc
from collections.abc import Sequence
from typing import Any

import msgspec

from rta_supervisor.catalogue import statements
from rta_supervisor.catalogue.model import CatalogueRow, ProgressRow, Query, StorageLocation


class SqlCatalogue(abc.ABC):
    """All questions, for one dialect."""

    def __init__(self, dialect: statements.Dialect) -> None:
        self._sql = statements.Statements(dialect)

    @abc.abstractmethod
    async def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """All that it finds."""

    @abc.abstractmethod
    async def _write(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Once for each row, all in one transaction; nothing where there are no rows."""

    async def save(self, rows: Sequence[CatalogueRow]) -> None:
        # In one order everywhere: two who save the same rows wait for each other and never both.
        await self._write(self._sql.upsert, [statements.values(row) for row in sorted(rows, key=_key)])

    async def save_progress(self, progress: Sequence[ProgressRow], *, at_ms: int) -> None:
        await self._write(self._sql.progress, [statements.progress_values(one, at_ms) for one in sorted(progress)])

    async def get(self, identity: str) -> CatalogueRow | None:
        found = await self._select(self._sql.newest, identity)
        return found[0] if found else None

    async def closed(self, identities: Sequence[str]) -> list[CatalogueRow]:
        return await self._select(self._sql.closed(len(identities)), *identities) if identities else []

    async def unfinished(self) -> list[CatalogueRow]:
        return await self._select(self._sql.unfinished)

    async def find(self, query: Query, *, limit: int, before: tuple[int, str] | None = None) -> list[CatalogueRow]:
        statement, values = self._sql.find(query, before, limit)
        return await self._select(statement, *values)

    async def latest(self, count: int) -> list[str]:
        return [found for (found,) in await self._read(self._sql.latest, count)]

    async def streams(self) -> list[str]:
        return [found for (found,) in await self._read(self._sql.streams)]

    async def highest_id(self) -> int:
        [(found,)] = await self._read(self._sql.highest)
        return found or 0

    async def save_locations(self, places: Sequence[StorageLocation]) -> None:
        await self._write(self._sql.upsert_location, sorted(msgspec.structs.astuple(place) for place in places))

    async def delete_locations(self, places: Sequence[StorageLocation]) -> None:
        await self._write(self._sql.delete_location, sorted(place.key for place in places))

    async def locations(self, stream: str) -> list[StorageLocation]:
        return [StorageLocation(*found) for found in await self._read(self._sql.select_locations, stream)]

    async def _select(self, statement: str, *values: Any) -> list[CatalogueRow]:
        return [statements.parse_row(found) for found in await self._read(statement, *values)]


def _key(row: CatalogueRow) -> tuple[str, int]:
    return row.key
