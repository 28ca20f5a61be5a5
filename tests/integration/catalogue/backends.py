"""A catalogue of either kind, and what tests do to it from outside."""

import contextlib
import sqlite3
from pathlib import Path
from typing import LiteralString

import anyio
import psycopg
from psycopg import sql

from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.settings import settings
from tests.support import postgres


def create(config: settings.CatalogueSettings) -> Catalogue:
    return factory.create(settings.Settings(catalogue=config))


def run_on_empty(config: settings.CatalogueSettings, work: object) -> None:
    """Run a function with an empty catalogue. For hypothesis, which uses one fixture for all of its examples."""
    if config.url:
        postgres.empty(config)
    else:
        Path(config.path).unlink(missing_ok=True)

    async def main() -> None:
        catalogue = create(config)
        try:
            await work(catalogue)  # type: ignore[operator]
        finally:
            await catalogue.close()

    anyio.run(main)


def drop_table(config: settings.CatalogueSettings, name: str) -> None:
    execute(config, name, "DROP TABLE {}")


def execute(config: settings.CatalogueSettings, table: str, statement: LiteralString) -> None:
    """Execute a statement in which braces stand for a table."""
    if config.url:
        with psycopg.connect(config.url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(config.schema, table)))
    else:
        with contextlib.closing(sqlite3.connect(config.path, isolation_level=None)) as connection:
            connection.execute(statement.format(table))
