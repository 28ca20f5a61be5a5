"""Which catalogue is created, and what happens without the driver of PostgreSQL."""

import subprocess
import sys

import pytest

from rta_supervisor.catalogue import factory
from rta_supervisor.settings import settings
from rta_wire import errors

Config = settings.CatalogueSettings


def test_without_the_driver_of_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install; a SQLite file needs no driver."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in [name for name in sys.modules if name.startswith("rta_supervisor.catalogue.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("rta_supervisor.catalogue.postgres", raising=False)
    with pytest.raises(errors.BadConfiguration, match=r"rta-supervisor\[postgres\]"):
        factory.create(settings.Settings(catalogue=Config(url="postgresql://h/db")))
    factory.create(settings.Settings(catalogue=Config(path="c.sqlite")))


def test_the_driver_is_not_imported_for_a_file() -> None:
    """The daemon and the command line start without psycopg."""
    modules = "rta_supervisor.runtime.daemon, rta_supervisor.cli.sessions.list"
    code = f"import sys, {modules}; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
