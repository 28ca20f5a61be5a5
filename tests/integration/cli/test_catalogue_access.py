"""Catalogues that commands can't use, or may only read."""

import sqlite3
import tempfile
from pathlib import Path

import pytest

from rta_supervisor.settings import settings
from tests.integration.cli.catalogue_content import ROWS, save
from tests.support import unprivileged
from tests.support.commands import NO_REDIS_URL, refused, run


def test_a_catalogue_that_is_away_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search ends with 69 and names the file or the database, without its password."""
    monkeypatch.setenv("RTA_CATALOGUE__PATH", str(tmp_path / "none.sqlite"))
    sentence = "none.sqlite can't be used: there is no such file"
    refused(run(NO_REDIS_URL, "sessions", "--all"), 69, sentence)
    monkeypatch.setenv("RTA_CATALOGUE__PATH", "")
    monkeypatch.setenv("RTA_CATALOGUE__URL", "postgresql://me:rosebud@127.0.0.1:1/db")
    result = run(NO_REDIS_URL, "sessions", "--all")
    refused(result, 69, "postgresql://me:***@127.0.0.1:1/db can't be used")
    assert "rosebud" not in result.err


def test_a_file_that_may_only_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may write neither the file nor its folder can search it, while it is open elsewhere and afterwards."""
    with tempfile.TemporaryDirectory(prefix="rtas-test-") as name:
        directory = Path(name)
        path = directory / "c.sqlite"
        save(settings.CatalogueSettings(path=str(path)), ROWS)
        monkeypatch.setenv("RTA_CATALOGUE__PATH", str(path))
        directory.chmod(0o555)
        path.chmod(0o444)
        with unprivileged.unprivileged():
            assert len(run(NO_REDIS_URL, "sessions", "--all", "--json").json()["sessions"]) == 4
        directory.chmod(0o755)
        path.chmod(0o644)
        writer = sqlite3.connect(path)
        writer.execute("UPDATE sessions SET stream = 'held' WHERE stream_session_id = 1")
        writer.commit()
        directory.chmod(0o555)
        for file in directory.iterdir():
            file.chmod(0o444)
        with unprivileged.unprivileged():
            assert len(run(NO_REDIS_URL, "sessions", "--all", "--stream", "held", "--json").json()["sessions"]) == 1
        writer.close()
        directory.chmod(0o755)


def test_a_file_of_an_older_schema_is_not_migrated_by_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search ends with 69 and names both versions of the schema."""
    path = tmp_path / "c.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript((Path(__file__).parents[1] / "catalogue" / "schema-1.sql").read_text())
    connection.close()
    monkeypatch.setenv("RTA_CATALOGUE__PATH", str(path))
    refused(run(NO_REDIS_URL, "sessions", "--all"), 69, "it has schema 1, not 2")
