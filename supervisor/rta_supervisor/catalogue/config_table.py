"""The table of configurations: its statements in SQL, and how their JSON is stored. Pure.

It is no part of a version of the schema of sessions, which older supervisors would refuse: it has a version of its own,
and is created where it is missing.
"""

import zlib
from typing import Any, Final

import msgspec

from rta_supervisor.catalogue.model import ConfigInfo, ConfigRow

TABLE: Final = "configs"
VERSION_TABLE: Final = "configs_version"
VERSION: Final = 1
COMPRESSION_LEVEL: Final = 6
"""JSON of thousands of similar channels shrinks to about a tenth."""

INFO_COLUMNS: Final = ConfigInfo.__struct_fields__
COLUMNS: Final = (*INFO_COLUMNS, "data")

# ruff: noqa: S608 - statements are made of constants


def create(*, text: str, integer: str, blob: str) -> tuple[str, ...]:
    """The statements that create what is missing, in the types of a database."""
    return (
        f"""CREATE TABLE IF NOT EXISTS {TABLE} (
            identifier {text} NOT NULL PRIMARY KEY, principal {text} NOT NULL, application {text} NOT NULL,
            channels {integer} NOT NULL, events {integer} NOT NULL, size_bytes {integer} NOT NULL,
            published_ms {integer} NOT NULL, data {blob} NOT NULL)""",
        f"CREATE TABLE IF NOT EXISTS {VERSION_TABLE} (number {integer} NOT NULL)",
        f"INSERT INTO {VERSION_TABLE} SELECT {VERSION} WHERE NOT EXISTS (SELECT 1 FROM {VERSION_TABLE})",
    )


class ConfigStatements:
    """The statements on configurations."""

    def __init__(self, placeholder: str) -> None:
        self._placeholder = placeholder
        marks = ", ".join([placeholder] * len(COLUMNS))
        self.version: Final = f"SELECT max(number) FROM {VERSION_TABLE}"
        self.insert: Final = f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({marks}) ON CONFLICT DO NOTHING"
        self.select: Final = f"SELECT data FROM {TABLE} WHERE identifier = {placeholder}"
        self.latest: Final = (
            f"SELECT {', '.join(INFO_COLUMNS)} FROM {TABLE} ORDER BY published_ms DESC, identifier LIMIT {placeholder}"
        )

    def saved(self, count: int) -> str:
        """Which of so many identifiers there are."""
        marks = ", ".join([self._placeholder] * count)
        return f"SELECT identifier FROM {TABLE} WHERE identifier IN ({marks})"


def row_values(config: ConfigRow) -> tuple[Any, ...]:
    """The values of `COLUMNS`."""
    return *msgspec.structs.astuple(config.info), zlib.compress(config.data, COMPRESSION_LEVEL)


def parse_data(column: bytes) -> bytes:
    """The JSON of a configuration as it was saved."""
    return zlib.decompress(column)
