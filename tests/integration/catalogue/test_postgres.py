"""The catalogue on a real PostgreSQL, with real faults: away, frozen, read-only, locked, full, restarted, refused."""

import contextlib
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import msgspec
import psycopg
import pytest
import redis

import rta_writers
from rta_supervisor.catalogue.model import Query
from rta_supervisor.catalogue.postgres import PostgresCatalogue
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import postgres_dsn
from rta_wire import errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from tests.support import postgres, supervisors
from tests.support.catalogue_rows import ROW, numbered_row
from tests.support.waiting import wait_until

Config = settings.CatalogueSettings


@pytest.fixture
def config(shared_postgres: postgres.Server) -> Iterator[Config]:
    with shared_postgres.schema() as catalogue_settings:
        yield catalogue_settings


@pytest.fixture
async def catalogue(config: Config) -> AsyncIterator[PostgresCatalogue]:
    catalogue = PostgresCatalogue(config)
    yield catalogue
    await catalogue.close()


def changed(config: Config, **changes: Any) -> Config:
    return msgspec.structs.replace(config, **changes)


async def test_restarted_between_two_calls(shared_postgres: postgres.Server, catalogue: PostgresCatalogue) -> None:
    """The call makes a new connection, and what was committed before a crash is there."""
    for stop_signal in (signal.SIGINT, signal.SIGQUIT):
        await catalogue.save([ROW])
        shared_postgres.stop(stop_signal)
        shared_postgres.start()
        assert await catalogue.unfinished() == [ROW]


async def test_an_outage(shared_postgres: postgres.Server, catalogue: PostgresCatalogue) -> None:
    """Calls raise a named error while the server is away, and work again afterwards."""
    await catalogue.save([ROW])
    shared_postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(errors.CatalogueUnavailable, match="can't be used") as caught:
                await catalogue.save([numbered_row(2)])
            assert caught.value.retriable
    finally:
        shared_postgres.start()
    assert await catalogue.unfinished() == [ROW]
    await catalogue.save([numbered_row(2)])
    assert len(await catalogue.unfinished()) == 2


async def test_a_frozen_server(shared_postgres: postgres.Server, config: Config, catalogue: PostgresCatalogue) -> None:
    """Neither a call on an old connection nor a new connection waits for ever, and the event loop is not blocked."""
    quick = PostgresCatalogue(changed(config, timeout_s=0.2))
    await quick.save([ROW])
    began_s = time.monotonic()
    with shared_postgres.frozen():
        async with anyio.create_task_group() as tasks:

            async def fail() -> None:
                with pytest.raises(
                    errors.CatalogueUnavailable, match=r"it does not answer: nothing came within 0\.4 s"
                ):
                    await quick.save([numbered_row(2)])

            tasks.start_soon(fail)
            await anyio.wait_all_tasks_blocked()
        with pytest.raises(errors.CatalogueUnavailable, match="timeout"):
            await quick.open()
    assert time.monotonic() - began_s < 10
    await quick.save([numbered_row(3)])
    assert numbered_row(3) in await catalogue.unfinished()
    await quick.close()


async def test_a_table_that_is_locked(config: Config, catalogue: PostgresCatalogue) -> None:
    """A write raises a named error after a moment and changes nothing; reading is possible meanwhile."""
    await catalogue.save([ROW])
    hasty = PostgresCatalogue(changed(config, timeout_s=0.2))
    with psycopg.connect(config.url) as other:
        other.execute(f"LOCK TABLE {config.schema}.sessions IN EXCLUSIVE MODE".encode())
        with pytest.raises(errors.CatalogueUnavailable, match="somebody else has locked it"):
            await hasty.save([numbered_row(2)])
        assert await hasty.unfinished() == [ROW]
    await hasty.save([numbered_row(2)])
    assert len(await catalogue.unfinished()) == 2
    await hasty.close()


async def test_a_read_only_server(config: Config, catalogue: PostgresCatalogue) -> None:
    """As a standby is: rows can be read, and a write is a named error."""
    await catalogue.save([ROW])
    standby = PostgresCatalogue(changed(config, url=f"{config.url}&options=-c%20default_transaction_read_only%3Don"))
    assert await standby.get("run-1") == ROW
    with pytest.raises(errors.CatalogueUnavailable, match="it is read-only"):
        await standby.save([numbered_row(2)])
    assert await standby.unfinished() == [ROW]
    await standby.close()


async def test_a_full_disk(shared_postgres: postgres.Server, config: Config, catalogue: PostgresCatalogue) -> None:
    """A write that does not fit changes nothing, and one that fits again works."""
    await catalogue.save([ROW])
    with small_disk(shared_postgres) as directory:
        shared_postgres.execute(f"CREATE TABLESPACE small LOCATION '{directory}'")
        shared_postgres.execute(f"ALTER TABLE {config.schema}.sessions SET TABLESPACE small")
        try:
            with pytest.raises(errors.CatalogueUnavailable, match="the disk is full"):
                await catalogue.save(
                    [numbered_row(2), *(numbered_row(number, json="x" * 1500) for number in range(3, 3000))]
                )
            assert await catalogue.unfinished() == [ROW]
            await catalogue.save([numbered_row(2)])
            assert await catalogue.unfinished() == [ROW, numbered_row(2)]
        finally:
            await catalogue.close()
            shared_postgres.execute(f"DROP SCHEMA {config.schema} CASCADE")
            shared_postgres.execute("DROP TABLESPACE small")


@contextlib.contextmanager
def small_disk(server: postgres.Server) -> Iterator[Path]:
    """A file system of a megabyte."""
    directory = server.directory / "small"
    directory.mkdir()
    options = "size=1m,uid=65534,gid=65534,mode=700"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)], check=False)
    if mounted.returncode != 0:
        directory.rmdir()
        pytest.skip("no small disk can be made without the right to mount")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)
        directory.rmdir()


async def test_a_schema_of_a_later_version(config: Config, catalogue: PostgresCatalogue) -> None:
    """It is not changed, and the error says what to do."""
    await catalogue.save([ROW])
    await catalogue.close()
    with psycopg.connect(config.url, autocommit=True) as other:
        other.execute(f"UPDATE {config.schema}.version SET number = 99".encode())  # noqa: S608 - our own name
    with pytest.raises(errors.CatalogueTooNew, match=r"schema 99 .* Upgrade the supervisor") as caught:
        await catalogue.save([numbered_row(2)])
    assert (caught.value.retriable, caught.value.exit_code) == (False, 78)


async def test_tables_that_were_dropped(config: Config, catalogue: PostgresCatalogue) -> None:
    """The first call says so, and the next one creates them again."""
    await catalogue.save([ROW])
    with psycopg.connect(config.url, autocommit=True) as other:
        other.execute(f"DROP SCHEMA {config.schema} CASCADE".encode())
    with pytest.raises(errors.CatalogueUnavailable, match="its tables are gone"):
        await catalogue.save([numbered_row(2)])
    await catalogue.save([numbered_row(3)])
    assert await catalogue.unfinished() == [numbered_row(3)]


async def test_ten_hosts_start_at_once(config: Config) -> None:
    """One creates the tables, the others find them."""
    hosts = [PostgresCatalogue(config) for _ in range(10)]
    async with anyio.create_task_group() as tasks:
        for number, host in enumerate(hosts, 1):
            tasks.start_soon(host.save, [numbered_row(number)])
    assert len(await hosts[0].unfinished()) == 10
    for host in hosts:
        await host.close()


async def test_hosts_that_save_the_same_rows_in_another_order(config: Config) -> None:
    """They wait for each other and never deadlock."""
    hosts = [PostgresCatalogue(changed(config, timeout_s=10)) for _ in range(4)]
    rows = [numbered_row(number) for number in range(1, 200)]
    await hosts[0].open()
    async with anyio.create_task_group() as tasks:
        for version in range(3):
            for host in hosts:
                rows.reverse()
                tasks.start_soon(host.save, [msgspec.structs.replace(row, version=version) for row in rows])
    assert len(await hosts[0].unfinished()) == 199
    for host in hosts:
        await host.close()


def guarded_url(server: postgres.Server, password: str = "") -> str:
    """The URL of a user that needs a password and may do nothing."""
    account = postgres.GUARDED + (f":{quote(password, safe='')}" if password else "")
    return f"postgresql://{account}@127.0.0.1:{server.port}/postgres"


@pytest.mark.parametrize("source", ["url", "file", "environment", "credential"])
async def test_where_the_password_comes_from(
    shared_postgres: postgres.Server, config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """From the URL, a file, the environment or a credential. A wrong one is named as such, and is not in the error."""
    file = tmp_path / postgres_dsn.CREDENTIAL
    for password in (postgres.PASSWORD, "wrong-one"):
        file.write_text(f"{password}\n")
        changed_config = changed(config, url=guarded_url(shared_postgres, password if source == "url" else ""))
        if source == "file":
            changed_config = changed(changed_config, password_file=str(file))
        if source == "environment":
            monkeypatch.setenv(postgres_dsn.PASSWORD_VARIABLE, password)
        if source == "credential":
            monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
        catalogue = PostgresCatalogue(changed_config)
        is_right = password == postgres.PASSWORD
        # With the right one it is connected, and then not allowed to create anything.
        with pytest.raises(
            errors.CatalogueUnavailable, match="may not do that" if is_right else "password is wrong"
        ) as caught:
            await catalogue.open()
        assert password not in f"{caught.value!r} {catalogue.name}"
        await catalogue.close()


async def test_a_user_that_may_only_use_its_own_schema(shared_postgres: postgres.Server, config: Config) -> None:
    """An operator who creates the schema for it need not grant it the right to create others."""
    shared_postgres.execute(f"CREATE SCHEMA {config.schema} AUTHORIZATION {postgres.GUARDED}")
    catalogue = PostgresCatalogue(changed(config, url=guarded_url(shared_postgres, postgres.PASSWORD)))
    await catalogue.save([ROW])
    assert await catalogue.find(Query(text="run"), limit=5) == [ROW]
    await catalogue.close()


def test_a_frozen_catalogue_delays_no_session(url: str, client: redis.Redis, shared_postgres: postgres.Server) -> None:
    """A session is opened and closed while the request for a lost session waits for the catalogue, and then fails."""
    with shared_postgres.schema() as config:
        slow = {**postgres.environment(config), "RTA_CATALOGUE__TIMEOUT_S": "1.5"}
        with supervisors.running(url, slow):
            sessions = rta_writers.SessionClient(url, timeout_s=20)
            with shared_postgres.frozen():
                request = control_pb2.ResurrectSession(request_id="slow", identity="run-9")
                client.xadd("rtas:req:operator", {"m": messages.pack(request)})
                sessions.session("run-1", stream="rig").close()
                assert not client.exists("rtas:reply:slow"), "the session was opened and closed before that is known"
                raw: Any = wait_until(lambda: client.lrange("rtas:reply:slow", 0, 0), what="a reply")
            with pytest.raises(errors.CatalogueUnavailable, match="can't be used"):
                messages.unpack_reply(raw[0])
