"""The methods of a catalogue as SQL statements, which `sql_statements` has, and the rows that they return. Connections
and their errors are left to subclasses.
"""

import abc
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rta_supervisor.catalogue import config_table, sql_statements
from rta_supervisor.catalogue.model import (
    FILES,
    CatalogueExternalId,
    CatalogueRow,
    ConfigInfo,
    ConfigRow,
    ProgressRow,
    Query,
    RowVersion,
    StorageLocation,
)
from rta_supervisor.catalogue.publications.statements import PublicationStatements
from rta_supervisor.catalogue.publications.table import PublicationTable
from rta_wire import errors

_BEFORE_ALL: Final = (-1, "")
"""Below the id of every session."""


class SqlCatalogue(abc.ABC):
    """A catalogue in a database of one dialect."""

    def __init__(self, dialect: sql_statements.Dialect) -> None:
        self._statements = sql_statements.Statements(dialect)
        publication_sql = PublicationStatements(dialect.placeholder, dialect.greatest)
        self._publications = PublicationTable(self._read, self._write, publication_sql, dialect.tables)
        self._config_statements = config_table.ConfigStatements(dialect.placeholder)

    @property
    def publications(self) -> PublicationTable:
        return self._publications

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Where the catalogue is, for people, without secrets."""

    @abc.abstractmethod
    async def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows that a statement returns."""

    @abc.abstractmethod
    async def _write(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a statement once for each row of values, all in one transaction; nothing where there are no rows."""

    async def save(self, rows: Sequence[CatalogueRow]) -> None:
        # In the same order everywhere: two that save the same rows at once can't deadlock.
        ordered = sorted(rows, key=lambda row: row.key)
        await self._write(self._statements.upsert, [sql_statements.row_values(row) for row in ordered])

    async def save_progress(self, progress: Sequence[ProgressRow], *, at_ms: int) -> None:
        rows = [sql_statements.progress_values(row, at_ms) for row in sorted(progress)]
        await self._write(self._statements.progress, rows)

    async def get(self, identity: str) -> CatalogueRow | None:
        rows = await self._select(self._statements.newest, identity)
        return rows[0] if rows else None

    async def save_external_ids(self, external_ids: Sequence[CatalogueExternalId]) -> None:
        rows = sorted(msgspec.structs.astuple(external_id) for external_id in external_ids)
        await self._write(self._statements.upsert_external_id, rows)

    async def external_ids(self, external_id: str) -> list[CatalogueExternalId]:
        if not await self._has_external_ids():
            return []
        rows = await self._read(self._statements.select_external_ids, external_id)
        return [CatalogueExternalId(*row) for row in rows]

    async def unfinished_external_ids(self) -> list[CatalogueExternalId]:
        return [CatalogueExternalId(*row) for row in await self._read(self._statements.unfinished_external_ids)]

    async def _has_external_ids(self) -> bool:
        """Whether the table is there: a catalogue that only older supervisors wrote has none."""
        return (sql_statements.EXTERNAL_IDS,) in await self._read(self._statements.tables)

    async def closed(self, identities: Sequence[str]) -> list[CatalogueRow]:
        return await self._select(self._statements.closed(len(identities)), *identities) if identities else []

    async def unfinished(self) -> list[CatalogueRow]:
        return await self._select(self._statements.unfinished)

    async def find(
        self,
        query: Query,
        *,
        limit: int,
        before: tuple[int, str] | None = None,
        json_max_chars: int | None = None,
    ) -> list[CatalogueRow]:
        if query.external_id and not await self._has_external_ids():
            return []
        statement, values = self._statements.find(query, before, limit, json_max_chars)
        return await self._select(statement, *values)

    async def page_after(self, after: tuple[int, str] | None, *, limit: int) -> list[CatalogueRow]:
        return await self._select(self._statements.page_after, *(after or _BEFORE_ALL), limit)

    async def versions(self) -> list[RowVersion]:
        return [(row[0], row[1], row[2], row[3]) for row in await self._read(self._statements.versions)]

    async def latest(self, count: int) -> list[str]:
        return [identity for (identity,) in await self._read(self._statements.latest, count)]

    async def streams(self) -> list[str]:
        return [stream for (stream,) in await self._read(self._statements.streams)]

    async def highest_id(self) -> int:
        [(stream_session_id,)] = await self._read(self._statements.highest)
        return stream_session_id or 0

    async def save_locations(self, locations: Sequence[StorageLocation]) -> None:
        rows = sorted(msgspec.structs.astuple(location) for location in locations)
        await self._write(self._statements.upsert_location, rows)

    async def delete_locations(self, locations: Sequence[StorageLocation]) -> None:
        await self._write(self._statements.delete_location, sorted(location.key for location in locations))

    async def locations(self, stream: str) -> list[StorageLocation]:
        return [StorageLocation(*row) for row in await self._read(self._statements.select_locations, stream)]

    async def archive_folders(self, sessions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], str]:
        if not sessions:
            return {}
        values = [value for session in sessions for value in session]
        rows = await self._read(self._statements.archive_folders(len(sessions)), FILES, *values)
        return {(stream, stream_session_id): location for stream, stream_session_id, location in rows}

    async def save_config(self, config: ConfigRow) -> bool:
        identifier = config.info.identifier
        is_new = identifier not in await self.has_configs([identifier])
        if is_new:
            await self._write(self._config_statements.insert, [config_table.row_values(config)])
        return is_new

    async def config(self, identifier: str) -> bytes | None:
        if not await self._has_config_table():
            return None
        rows = await self._read(self._config_statements.select, identifier)
        return config_table.parse_data(rows[0][0]) if rows else None

    async def config_infos(self, *, limit: int) -> list[ConfigInfo]:
        if not await self._has_config_table():
            return []
        return [ConfigInfo(*row) for row in await self._read(self._config_statements.latest, limit)]

    async def has_configs(self, identifiers: Sequence[str]) -> set[str]:
        if not identifiers or not await self._has_config_table():
            return set()
        rows = await self._read(self._config_statements.saved(len(identifiers)), *identifiers)
        return {identifier for (identifier,) in rows}

    async def _has_config_table(self) -> bool:
        """Whether the table is there, in a version that this program knows: a catalogue that only older supervisors
        wrote has none."""
        if (config_table.VERSION_TABLE,) not in await self._read(self._statements.tables):
            return False
        [(version,)] = await self._read(self._config_statements.version)
        if version is not None and version > config_table.VERSION:
            raise errors.CatalogueTooNew(path=self.name, found=version, known=config_table.VERSION)
        return True

    async def _select(self, statement: str, *values: Any) -> list[CatalogueRow]:
        return [sql_statements.parse_row(row) for row in await self._read(statement, *values)]
