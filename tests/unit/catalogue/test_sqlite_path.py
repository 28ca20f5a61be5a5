"""Where the file of a SQLite catalogue is."""

from pathlib import Path

import pytest

from rta_supervisor.catalogue import sqlite
from rta_supervisor.settings import settings
from rta_wire import keys


@pytest.mark.parametrize(
    ("environ", "path", "wanted"),
    [
        ({"STATE_DIRECTORY": "/var/lib/x:/var/lib/y", "HOME": "/h"}, "", "/var/lib/x/catalogue-3c2b.sqlite"),
        ({"XDG_STATE_HOME": "/state", "HOME": "/h"}, "", "/state/rta-supervisor/catalogue-3c2b.sqlite"),
        ({"HOME": "/h"}, "", "/h/.local/state/rta-supervisor/catalogue-3c2b.sqlite"),
        ({"STATE_DIRECTORY": "/var/lib/x"}, "/elsewhere/c.db", "/elsewhere/c.db"),
    ],
)
def test_where_the_file_is(environ: dict[str, str], path: str, wanted: str) -> None:
    """As configured, else where systemd says, else where the user keeps state."""
    config = settings.Settings(catalogue=settings.CatalogueSettings(path=path))
    found = sqlite.catalogue_path(config, environ)
    tag = sqlite.deployment(config)
    assert found == Path(wanted.replace("3c2b", tag))


def test_each_redis_has_a_file_of_its_own() -> None:
    """Sessions of one server are never put back into another; a password makes no difference."""
    urls = ["redis://h/0", "redis://h/1", "redis://me:secret@h/0"]
    tags = [sqlite.deployment(settings.Settings(redis=settings.RedisSettings(url=url))) for url in urls]
    assert tags[0] == tags[2] != tags[1]
    other = settings.Settings(keys=keys.Keys(prefix="other:"))
    assert sqlite.deployment(other) != sqlite.deployment(settings.Settings())
