"""What a catalogue answers, put into SQL. Who has the connection, and what its errors mean, is up to the heirs."""

import abc
from collections.abc import Sequence
from typing import Any

import msgspec

from rta_supervisor.catalogue import statements
from rta_supervisor.catalogue.model import Place, Progress, Query, Row


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

    async def save(self, rows: Sequence[Row]) -> None:
        # In one order everywhere: two who save the same rows wait for each other and never both.
        await self._write(self._sql.upsert, [statements.values(row) for row in sorted(rows, key=_key)])

    async def save_progress(self, progress: Sequence[Progress], *, at_ms: int) -> None:
        await self._write(self._sql.progress, [statements.progress_values(one, at_ms) for one in sorted(progress)])

    async def get(self, identity: str) -> Row | None:
        found = await self._select(self._sql.newest, identity)
        return found[0] if found else None

    async def closed(self, identities: Sequence[str]) -> list[Row]:
        return await self._select(self._sql.closed(len(identities)), *identities) if identities else []

    async def unfinished(self) -> list[Row]:
        return await self._select(self._sql.unfinished)

    async def find(self, query: Query, *, limit: int, before: tuple[int, str] | None = None) -> list[Row]:
        statement, values = self._sql.find(query, before, limit)
        return await self._select(statement, *values)

    async def latest(self, count: int) -> list[str]:
        return [found for (found,) in await self._read(self._sql.latest, count)]

    async def streams(self) -> list[str]:
        return [found for (found,) in await self._read(self._sql.streams)]

    async def highest_id(self) -> int:
        [(found,)] = await self._read(self._sql.highest)
        return found or 0

    async def save_places(self, places: Sequence[Place]) -> None:
        await self._write(self._sql.put_place, sorted(msgspec.structs.astuple(place) for place in places))

    async def drop_places(self, places: Sequence[Place]) -> None:
        await self._write(self._sql.drop_place, sorted(place.key for place in places))

    async def places(self, stream: str) -> list[Place]:
        return [Place(*found) for found in await self._read(self._sql.places, stream)]

    async def _select(self, statement: str, *values: Any) -> list[Row]:
        return [statements.row(found) for found in await self._read(statement, *values)]


def _key(row: Row) -> tuple[str, int]:
    return row.key
