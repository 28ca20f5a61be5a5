"""Creates the catalogue that the settings name: a PostgreSQL database where they have its URL, else a SQLite file."""

import os
from collections.abc import Mapping

from rta_supervisor.catalogue import sqlite_path
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.settings import settings
from rta_wire import errors


def create(config: settings.Settings, environ: Mapping[str, str] = os.environ) -> Catalogue:
    """The catalogue of a supervisor, which writes to it."""
    if config.catalogue.url:
        return _postgres(config, read_only=False)
    # Only the directory of the default path is created: another path may be on a mount that is missing.
    return SqliteCatalogue(sqlite_path.catalogue_path(config, environ), make_directory=not config.catalogue.path)


def create_read_only(config: settings.Settings, environ: Mapping[str, str] = os.environ) -> Catalogue:
    """The catalogue of a supervisor, for a command that only reads it."""
    if config.catalogue.url:
        return _postgres(config, read_only=True)
    return SqliteCatalogue(sqlite_path.existing_path(config, environ), read_only=True)


def _postgres(config: settings.Settings, *, read_only: bool) -> Catalogue:
    try:
        from rta_supervisor.catalogue import postgres  # noqa: PLC0415 - the extra `postgres`; most have a file
    except ImportError as error:
        reason = (
            f"PostgreSQL needs psycopg, which can't be imported ({error}). Install rta-supervisor[postgres], or take "
            "the setting away for a SQLite file"
        )
        raise errors.BadConfiguration(where="catalogue.url", reason=reason) from error
    return postgres.PostgresCatalogue(config.catalogue, read_only=read_only)
