"""Where the file of a SQLite catalogue is, by settings and environment."""

from pathlib import Path

import pytest

from rta_supervisor.catalogue import sqlite_path
from rta_supervisor.settings import settings
from rta_wire import keys


@pytest.mark.parametrize(
    ("environ", "path", "expected"),
    [
        ({"STATE_DIRECTORY": "/var/lib/x:/var/lib/y", "HOME": "/h"}, "", "/var/lib/x/catalogue-3c2b.sqlite"),
        ({"XDG_STATE_HOME": "/state", "HOME": "/h"}, "", "/state/rta-supervisor/catalogue-3c2b.sqlite"),
        ({"HOME": "/h"}, "", "/h/.local/state/rta-supervisor/catalogue-3c2b.sqlite"),
        ({"STATE_DIRECTORY": "/var/lib/x"}, "/elsewhere/c.db", "/elsewhere/c.db"),
    ],
)
def test_where_the_file_is(environ: dict[str, str], path: str, expected: str) -> None:
    """As configured, else where systemd says, else where the user keeps state."""
    config = settings.Settings(catalogue=settings.CatalogueSettings(path=path))
    expected = expected.replace("3c2b", sqlite_path.deployment_id(config))
    assert sqlite_path.catalogue_path(config, environ) == Path(expected)


def test_each_redis_has_a_file_of_its_own() -> None:
    """So that sessions of one server are never put back into another; a password makes no difference."""
    urls = ["redis://h/0", "redis://h/1", "redis://me:secret@h/0"]
    ids = [sqlite_path.deployment_id(settings.Settings(redis=settings.RedisSettings(url=url))) for url in urls]
    assert ids[0] == ids[2] != ids[1]
    other = settings.Settings(keys=keys.Keys(prefix="other:"))
    assert sqlite_path.deployment_id(other) != sqlite_path.deployment_id(settings.Settings())


def test_who_reads_takes_the_file_of_the_service_where_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the user comes first, and a configured path is the only one."""
    monkeypatch.setattr(sqlite_path, "SYSTEM_STATE", tmp_path / "service")
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    config = settings.Settings()
    own = sqlite_path.catalogue_path(config, environ)
    assert sqlite_path.existing_path(config, environ) == own, "there is no file at all"
    service = tmp_path / "service" / own.name
    service.parent.mkdir()
    service.touch()
    assert sqlite_path.existing_path(config, environ) == service
    configured = settings.Settings(catalogue=settings.CatalogueSettings(path=str(tmp_path / own.name)))
    assert sqlite_path.existing_path(configured, environ) == tmp_path / own.name
    own.parent.mkdir(parents=True)
    own.touch()
    assert sqlite_path.existing_path(config, environ) == own
