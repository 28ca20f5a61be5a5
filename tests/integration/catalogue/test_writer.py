"""The catalogue writer: a closed session stays in Redis until a catalogue of either kind has it."""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg
import redis

import rta_writers
from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.retention import server_functions as retention_functions
from rta_supervisor.session import server_functions as session_functions
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, function_loader
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys
from rta_wire.session import State
from tests.support import postgres, supervisors
from tests.support.control import write
from tests.support.session_values import session_record
from tests.support.waiting import wait_until

Config = settings.CatalogueSettings
CLOSED_TTL_S = 1000
OPEN_TTL_S = 5000


def open_closed(identity: str, names: keys.Keys, *, ttl_s: int, version: int = 1) -> commands.Command:
    """Write a session that is closed."""
    record = session_record(identity, state=State.CLOSED, version=version)
    return session_functions.open_session(names, record, position="0-0", now_ms=1, ttl_s=ttl_s)


def change_closed(
    identity: str, names: keys.Keys, document: bytes, *, ttl_s: int, version: int = 1
) -> commands.Command:
    """Write new JSON to a session that is closed."""
    record = session_record(identity, version=version)
    return session_functions.put_json(names, record, document, State.CLOSED, now_ms=2, ttl_s=ttl_s)


@contextlib.contextmanager
def locked(config: Config) -> Iterator[None]:
    """No other connection can write to the catalogue."""
    if config.url:
        with psycopg.connect(config.url) as other:
            other.execute(f"LOCK TABLE {config.schema}.sessions IN EXCLUSIVE MODE".encode())
            yield
        return
    with contextlib.closing(sqlite3.connect(config.path, isolation_level=None)) as other_file:
        other_file.execute("BEGIN IMMEDIATE")
        yield


def is_kept(client: redis.Redis, identity: str, *, longer_than_s: int = CLOSED_TTL_S) -> bool:
    """Whether the keys of a session live longer than a released session does."""
    ttls = [client.ttl(key) for key in (f"sessions:{identity}", f"rtas:st:{{sessions:{identity}}}")]
    return all(int(str(ttl)) > longer_than_s for ttl in ttls)


def rows(config: Config) -> dict[str, str]:
    """States by identity, as another process sees them."""
    if config.url:
        with psycopg.connect(config.url) as other:
            return dict(other.execute(f"SELECT identity, state FROM {config.schema}.sessions".encode()).fetchall())  # noqa: S608 - our own name
    with contextlib.closing(sqlite3.connect(config.path)) as file:
        return dict(file.execute("SELECT identity, state FROM sessions").fetchall())


def environment(config: Config, **changes: str) -> dict[str, str]:
    """Settings of a supervisor with this catalogue, as environment variables."""
    return {
        **postgres.environment(config),
        "RTA_CATALOGUE__TIMEOUT_S": "0.3",
        "RTA_SESSION__CLOSED_TTL_S": str(CLOSED_TTL_S),
        "RTA_SESSION__OPEN_TTL_S": str(OPEN_TTL_S),
        **changes,
    }


def test_a_closed_session_is_kept_while_the_catalogue_is_locked(
    url: str, client: redis.Redis, catalogue_settings: Config
) -> None:
    """Sessions are opened and closed as always; a closed one is released after its row is committed."""
    with supervisors.running(url, environment(catalogue_settings)) as supervisor:
        sessions = rta_writers.SessionClient(url, timeout_s=20)
        opened = sessions.session("run-1", stream="rig")
        wait_until(lambda: rows(catalogue_settings).get("run-1") == "open", what="the row")
        with locked(catalogue_settings):
            write(client, opened, 3)
            opened.close()
            supervisor.wait_for_event("catalogue_behind")
            assert is_kept(client, "run-1")
            assert client.zscore("rtas:idx", "run-1") is not None
            assert rows(catalogue_settings) == {"run-1": "open"}
        wait_until(lambda: not is_kept(client, "run-1"), what="the release")
        assert rows(catalogue_settings) == {"run-1": "closed"}, "the row was written before the release"
        supervisor.wait_for_event("catalogue_caught_up")


def test_a_closed_session_is_renewed_until_the_catalogue_has_it(
    url: str, client: redis.Redis, catalogue_settings: Config
) -> None:
    """Also where the catalogue is locked for longer than sessions live, and supervisors are restarted meanwhile."""
    short = environment(catalogue_settings, RTA_SESSION__OPEN_TTL_S="60", RTA_NODE__LEASE_S="0.5")

    def wait_until_renewed() -> None:
        for key in ("sessions:run-1", "rtas:st:{sessions:run-1}"):
            client.expire(key, 30)
        wait_until(lambda: is_kept(client, "run-1", longer_than_s=30), what="a renewal")

    with supervisors.running(url, short) as first:
        session = rta_writers.SessionClient(url, timeout_s=20).session("run-1", stream="rig")
        wait_until(lambda: "run-1" in rows(catalogue_settings), what="the row")
        with locked(catalogue_settings):
            session.close()
            first.wait_for_event("catalogue_behind")
            wait_until_renewed()
            first.kill()
            with supervisors.running(url, short) as second:
                wait_until_renewed()
                assert rows(catalogue_settings)["run-1"] == "open"
                second.kill()
        with supervisors.running(url, short):
            wait_until(lambda: is_kept(client, "run-1", longer_than_s=60), what="the lifetime of a released session")
            assert rows(catalogue_settings)["run-1"] == "closed"


def test_a_released_session_is_not_renewed(raw: redis.Redis) -> None:
    """Unless it has changed since: then the catalogue does not have it any more."""
    names = keys.Keys()
    raw.execute_command(*open_closed("run-1", names, ttl_s=50, version=7))
    assert raw.execute_command(*session_functions.extend_closed(names, "run-1", ttl_s=500)) == 1
    assert raw.execute_command("TTL", names.session("run-1")) == 500
    assert (
        raw.execute_command(*retention_functions.release_closed(names, "run-1", 7, ttl_s=9, unarchived_ttl_s=0))[0]
        == b"free"
    )
    assert raw.execute_command(*session_functions.extend_closed(names, "run-1", ttl_s=500)) == 0
    assert raw.execute_command("TTL", names.session_state("run-1")) == 9
    raw.execute_command(*change_closed("run-1", names, b'{"a":1}', ttl_s=60, version=7))
    late = raw.execute_command(*retention_functions.release_closed(names, "run-1", 7, ttl_s=9, unarchived_ttl_s=0))
    assert late[0] == b"changed", "it changed in between"
    assert raw.execute_command(*session_functions.extend_closed(names, "run-1", ttl_s=500)) == 1
    raw.execute_command("DEL", names.session("run-1"), names.session_state("run-1"))


class ChangingCatalogue:
    """A catalogue that calls a function after each write."""

    def __init__(self, inner: Catalogue, after_save: Any) -> None:
        self._inner = inner
        self._after_save = after_save

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def save(self, rows: list[CatalogueRow]) -> None:
        await self._inner.save(rows)
        await self._after_save()


async def test_a_session_that_changes_while_its_row_is_written(
    url: str, client: redis.Redis, catalogue_settings: Config
) -> None:
    """Its row is older than what is in Redis: it is kept until the next row."""
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        catalogue=catalogue_settings,
        session=settings.SessionSettings(open_ttl_s=OPEN_TTL_S, closed_ttl_s=CLOSED_TTL_S),
    )
    link = Link(config.redis)
    await function_loader.load(link)
    ttl_s = OPEN_TTL_S
    await link.do(*open_closed("run-1", config.keys, ttl_s=ttl_s))
    await link.do("ZADD", config.keys.session_index(), 1, "run-1")
    catalogue = factory.create(config)

    async def rename() -> None:
        await link.do(*change_closed("run-1", config.keys, b'{"new":1}', ttl_s=OPEN_TTL_S))

    writer = CatalogueWriter(link, ChangingCatalogue(catalogue, rename), config)  # type: ignore[arg-type]
    writer.mark_changed("run-1")
    await writer.flush()
    assert is_kept(client, "run-1"), "the row that was committed is an older one"
    assert client.zscore("rtas:idx", "run-1") is not None
    writer = CatalogueWriter(link, catalogue, config)
    writer.mark_changed("run-1")
    await writer.flush()
    assert not is_kept(client, "run-1")
    row = await catalogue.get("run-1")
    assert row is not None
    assert (row.version, row.json) == (2, '{"new":1}')
    await catalogue.close()
    await link.close()


async def test_a_write_that_fails_releases_nothing(url: str, client: redis.Redis, catalogue_settings: Config) -> None:
    """Whatever the reason is, the session stays in Redis, and its row is written at the next attempt."""
    config = settings.Settings(redis=settings.RedisSettings(url=url), catalogue=catalogue_settings)
    link = Link(config.redis)
    await function_loader.load(link)
    ttl_s = config.session.open_ttl_s
    await link.do(*open_closed("run-1", config.keys, ttl_s=ttl_s))
    catalogue = factory.create(config)
    reasons = iter(["the disk is full", "it is read-only", "the file can't be opened"])

    class FailingCatalogue(ChangingCatalogue):
        async def save(self, rows: list[CatalogueRow]) -> None:
            if reason := next(reasons, None):
                raise errors.CatalogueUnavailable(path="x", reason=reason)
            await self._inner.save(rows)

    writer = CatalogueWriter(link, FailingCatalogue(catalogue, None), config)  # type: ignore[arg-type]
    writer.mark_changed("run-1")
    for _ in range(3):
        await writer.flush()
        assert is_kept(client, "run-1", longer_than_s=config.session.closed_ttl_s)
    await writer.flush()
    assert not is_kept(client, "run-1", longer_than_s=config.session.closed_ttl_s)
    await catalogue.close()
    await link.close()


def test_postgres_is_restarted_while_sessions_end(
    url: str, client: redis.Redis, shared_postgres: postgres.Server
) -> None:
    """Every session is released after the database is back and has its row."""
    with shared_postgres.schema() as config, supervisors.running(url, environment(config)) as supervisor:
        sessions = rta_writers.SessionClient(url, timeout_s=20)
        opened = [sessions.session(f"run-{number}", stream="rig") for number in range(1, 9)]
        wait_until(lambda: len(rows(config)) == 8, what="the rows")
        opened[0].close()
        shared_postgres.stop()
        for session in opened[1:]:
            session.close()
        supervisor.wait_for_event("catalogue_behind")
        assert all(is_kept(client, session.identity) for session in opened[1:])
        shared_postgres.start()
        wait_until(lambda: not any(is_kept(client, session.identity) for session in opened), what="the releases")
        assert set(rows(config).values()) == {"closed"}
        supervisor.wait_for_event("catalogue_caught_up")
