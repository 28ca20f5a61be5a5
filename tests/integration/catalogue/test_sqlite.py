"""The catalogue on real files, with real faults: other processes, kill -9, permissions, a full disk, junk."""

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from rta_supervisor.catalogue import factory, sqlite_schema
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.settings import settings
from rta_wire import errors
from tests.support import unprivileged
from tests.support.catalogue_rows import LOCATION, ROW, numbered_row

ROOT = Path(__file__).parents[3]


@pytest.fixture
async def catalogue(tmp_path: Path) -> AsyncIterator[SqliteCatalogue]:
    catalogue = SqliteCatalogue(tmp_path / "c.sqlite", busy_timeout_s=0.05)
    yield catalogue
    await catalogue.close()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user can read."""
    with tempfile.TemporaryDirectory(prefix="rtas-test-") as name:
        allow(Path(name), 0o755)
        yield Path(name)
        allow(Path(name), 0o755)


def allow(path: Path, mode: int) -> None:
    path.chmod(mode)


async def test_locked_by_another_connection(catalogue: SqliteCatalogue) -> None:
    """A write raises a named error after a moment and changes nothing; reading is possible meanwhile."""
    await catalogue.save([ROW])
    other = sqlite3.connect(catalogue.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(errors.CatalogueUnavailable, match="another process has locked it") as caught:
        await catalogue.save([numbered_row(2)])
    assert caught.value.retriable
    assert await catalogue.unfinished() == [ROW]
    other.execute("ROLLBACK")
    other.close()
    await catalogue.save([numbered_row(2)])
    assert len(await catalogue.unfinished()) == 2


async def test_a_new_file_that_is_locked(catalogue: SqliteCatalogue) -> None:
    """The change to WAL mode waits for the lock too, and then raises a named error."""
    other = sqlite3.connect(catalogue.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(errors.CatalogueUnavailable, match="another process has locked it"):
        await catalogue.open()
    other.close()
    await catalogue.open()


async def test_a_directory_that_is_missing(tmp_path: Path) -> None:
    """The error has the path, and the directory is not created."""
    catalogue = SqliteCatalogue(tmp_path / "gone" / "c.sqlite")
    with pytest.raises(errors.CatalogueUnavailable, match=r"gone/c\.sqlite can't be used: .*directory must exist"):
        await catalogue.open()
    assert not (tmp_path / "gone").exists()
    (tmp_path / "gone").mkdir()
    await catalogue.save([ROW])
    assert await catalogue.get("run-1") == ROW
    await catalogue.close()


async def test_a_directory_that_may_not_be_written(open_directory: Path) -> None:
    """The same error for a directory of another user, existing or to be created."""
    allow(open_directory, 0o555)
    for catalogue in (
        SqliteCatalogue(open_directory / "c.sqlite"),
        SqliteCatalogue(open_directory / "new" / "c.sqlite", make_directory=True),
    ):
        with unprivileged.unprivileged():
            with pytest.raises(errors.CatalogueUnavailable, match=r"can't be (opened|made)"):
                await catalogue.save([ROW])
            await catalogue.close()


async def test_a_file_that_may_not_be_written(open_directory: Path) -> None:
    """The error says that it is read-only, and it keeps its rows."""
    path = open_directory / "c.sqlite"
    catalogue = SqliteCatalogue(path)
    await catalogue.save([ROW])
    await catalogue.close()
    allow(path, 0o444)
    allow(open_directory, 0o777)
    with unprivileged.unprivileged():
        with pytest.raises(errors.CatalogueUnavailable, match="it is read-only"):
            await catalogue.save([numbered_row(2)])
        await catalogue.close()
    allow(path, 0o644)
    assert await catalogue.unfinished() == [ROW]
    await catalogue.close()


async def test_a_full_disk(catalogue: SqliteCatalogue) -> None:
    """A write that does not fit changes nothing, and one that fits again works."""
    await catalogue.save([ROW])
    assert catalogue._connection is not None
    pages = catalogue._connection.execute("PRAGMA page_count").fetchone()[0]
    catalogue._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(errors.CatalogueUnavailable, match="the disk is full"):
        await catalogue.save([numbered_row(2), *(numbered_row(number, json="x" * 5000) for number in range(3, 20))])
    assert await catalogue.unfinished() == [ROW]
    await catalogue.save([numbered_row(2)])
    assert await catalogue.unfinished() == [ROW, numbered_row(2)]


async def test_files_that_are_no_catalogue(tmp_path: Path) -> None:
    """The error distinguishes another kind of file from a damaged one, and neither is changed."""
    junk = tmp_path / "junk.sqlite"
    junk.write_bytes(b"certainly not a database" * 1000)
    catalogue = SqliteCatalogue(junk)
    with pytest.raises(errors.CatalogueUnavailable, match="is not a catalogue"):
        await catalogue.unfinished()
    assert junk.read_bytes() == b"certainly not a database" * 1000
    damaged = tmp_path / "damaged.sqlite"
    catalogue = SqliteCatalogue(damaged)
    await catalogue.save([numbered_row(number, json="x" * 1000) for number in range(1, 200)])
    await catalogue.close()
    raw = bytearray(damaged.read_bytes())
    raw[4096:] = os.urandom(len(raw) - 4096)
    damaged.write_bytes(raw)
    with pytest.raises(errors.CatalogueUnavailable, match="is damaged"):
        await catalogue.unfinished()
    damaged.unlink()
    await catalogue.save([ROW])
    assert await catalogue.unfinished() == [ROW]
    await catalogue.close()


async def test_a_file_of_a_later_version(catalogue: SqliteCatalogue) -> None:
    """An unknown schema is not changed, and the error says what to do."""
    await catalogue.save([ROW])
    await catalogue.close()
    raw = sqlite3.connect(catalogue.path)
    raw.execute(f"PRAGMA user_version = {sqlite_schema.LATEST + 1}")
    raw.close()
    with pytest.raises(errors.CatalogueTooNew, match=rf"schema {sqlite_schema.LATEST + 1} .* Upgrade") as caught:
        await catalogue.save([numbered_row(2)])
    assert (caught.value.retriable, caught.value.exit_code) == (False, 78)


async def test_waiting_for_a_lock_does_not_block_the_event_loop(catalogue: SqliteCatalogue) -> None:
    """Only the worker thread waits."""
    patient = SqliteCatalogue(catalogue.path, busy_timeout_s=10)
    await patient.save([ROW])
    other = sqlite3.connect(catalogue.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(patient.save, [numbered_row(2)])
        await anyio.wait_all_tasks_blocked()
        other.execute("ROLLBACK")
    other.close()
    assert await patient.get("run-2") == numbered_row(2)
    await patient.close()


async def test_the_default_directory_is_created(tmp_path: Path) -> None:
    """A first start needs no preparation, and other users can't read the sessions."""
    catalogue = factory.create(settings.Settings(), {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert isinstance(catalogue, SqliteCatalogue)
    await catalogue.open()
    assert catalogue.path.exists()
    assert catalogue.path.parent.stat().st_mode & 0o777 == 0o700
    await catalogue.close()


async def test_a_file_of_the_first_version(tmp_path: Path) -> None:
    """It is migrated by whichever of two processes is first, and keeps every row."""
    path = tmp_path / "c.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as raw, raw:
        raw.executescript((ROOT / "tests" / "integration" / "catalogue" / "schema-1.sql").read_text())
    for catalogue in (SqliteCatalogue(path), SqliteCatalogue(path)):
        assert await catalogue.get("run-1") == ROW
        await catalogue.save_locations([LOCATION])
        assert await catalogue.locations("rig") == [LOCATION]
        await catalogue.close()
