"""Which catalogue there is: a PostgreSQL where the settings name one, else a file."""

from rta_supervisor.catalogue.model import Catalogue
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.settings import settings
from rta_wire import errors


def create(config: settings.Settings) -> Catalogue:
    """For the supervisor."""
    return _postgres(config, read_only=False) if config.catalogue.url else SqliteCatalogue.from_settings(config)


def create_read_only(config: settings.Settings) -> Catalogue:
    """For somebody who only looks."""
    return (
        _postgres(config, read_only=True) if config.catalogue.url else SqliteCatalogue.from_settings_read_only(config)
    )


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
