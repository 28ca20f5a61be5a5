"""Confirm, then expire: nothing of a closed session goes from Redis before a catalogue of either kind has it."""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg
import redis

import rta_writers
from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.model import Catalogue, CatalogueRow
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.retention import functions as retention_functions
from rta_supervisor.session import functions as session_functions
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, functions
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
    """Nobody else can write."""
    if config.url:
        with psycopg.connect(config.url) as other:
            other.execute(f"LOCK TABLE {config.schema}.sessions IN EXCLUSIVE MODE".encode())
            yield
        return
    with contextlib.closing(sqlite3.connect(config.path, isolation_level=None)) as other_file:
        other_file.execute("BEGIN IMMEDIATE")
        yield


def lives_on(client: redis.Redis, identity: str, *, more_than_s: int = CLOSED_TTL_S) -> bool:
    ttls = [client.ttl(key) for key in (f"sessions:{identity}", f"rtas:st:{{sessions:{identity}}}")]
    return all(int(str(ttl)) > more_than_s for ttl in ttls)


def rows(config: Config) -> dict[str, str]:
    """State by identity, as another process sees it."""
    if config.url:
        with psycopg.connect(config.url) as other:
            return dict(other.execute(f"SELECT identity, state FROM {config.schema}.sessions".encode()).fetchall())  # noqa: S608 - our own name
    with contextlib.closing(sqlite3.connect(config.path)) as file:
        return dict(file.execute("SELECT identity, state FROM sessions").fetchall())


def quick(config: Config, **further: str) -> dict[str, str]:
    return {
        **postgres.environment(config),
        "RTA_CATALOGUE__TIMEOUT_S": "0.3",
        "RTA_SESSION__CLOSED_TTL_S": str(CLOSED_TTL_S),
        "RTA_SESSION__OPEN_TTL_S": str(OPEN_TTL_S),
        **further,
    }


def test_while_it_is_locked_nothing_is_let_go(url: str, client: redis.Redis, catalogue_settings: Config) -> None:
    """Sessions open and close as always; the closed one keeps its long life until its row is committed."""
    with supervisors.running(url, quick(catalogue_settings)) as supervisor:
        sessions = rta_writers.SessionClient(url, timeout_s=20)
        opened = sessions.session("run-1", stream="rig")
        wait_until(lambda: rows(catalogue_settings).get("run-1") == "open", what="the row")
        with locked(catalogue_settings):
            write(client, opened, 3)
            opened.close()
            supervisor.wait_for_event("catalogue_behind")
            assert lives_on(client, "run-1")
            assert client.zscore("rtas:idx", "run-1") is not None
            assert rows(catalogue_settings) == {"run-1": "open"}
        wait_until(lambda: not lives_on(client, "run-1"), what="the short life")
        assert rows(catalogue_settings) == {"run-1": "closed"}, "the row came before the life was cut"
        supervisor.wait_for_event("catalogue_caught_up")


def test_a_closed_session_outlives_its_life_while_nothing_else_has_it(
    url: str, client: redis.Redis, catalogue_settings: Config
) -> None:
    """A catalogue that is away for longer than sessions live costs no session, restarts of supervisors included."""
    short = quick(catalogue_settings, RTA_SESSION__OPEN_TTL_S="60", RTA_NODE__LEASE_S="0.5")

    def is_renewed() -> None:
        for key in ("sessions:run-1", "rtas:st:{sessions:run-1}"):
            client.expire(key, 30)
        wait_until(lambda: lives_on(client, "run-1", more_than_s=30), what="a life that is renewed")

    with supervisors.running(url, short) as first:
        kept = rta_writers.SessionClient(url, timeout_s=20).session("run-1", stream="rig")
        wait_until(lambda: "run-1" in rows(catalogue_settings), what="the row")
        with locked(catalogue_settings):
            kept.close()
            first.wait_for_event("catalogue_behind")
            is_renewed()
            first.kill()
            with supervisors.running(url, short) as second:
                is_renewed()
                assert rows(catalogue_settings)["run-1"] == "open"
                second.kill()
        with supervisors.running(url, short):
            wait_until(lambda: lives_on(client, "run-1", more_than_s=60), what="the life of a closed session")
            assert rows(catalogue_settings)["run-1"] == "closed"


def test_what_was_let_go_is_not_held(raw: redis.Redis) -> None:
    """A session that a catalogue has keeps its short life; one that changed since is held again."""
    names = keys.Keys()
    raw.execute_command(*open_closed("held", names, ttl_s=50, version=7))
    assert raw.execute_command(*session_functions.extend_closed(names, "held", ttl_s=500)) == 1
    assert raw.execute_command("TTL", names.session("held")) == 500
    assert (
        raw.execute_command(*retention_functions.release_closed(names, "held", 7, ttl_s=9, held_ttl_s=0))[0] == b"free"
    )
    assert raw.execute_command(*session_functions.extend_closed(names, "held", ttl_s=500)) == 0
    assert raw.execute_command("TTL", names.session_state("held")) == 9
    raw.execute_command(*change_closed("held", names, b'{"a":1}', ttl_s=60, version=7))
    late = raw.execute_command(*retention_functions.release_closed(names, "held", 7, ttl_s=9, held_ttl_s=0))
    assert late[0] == b"changed", "it changed in between"
    assert raw.execute_command(*session_functions.extend_closed(names, "held", ttl_s=500)) == 1
    raw.execute_command("DEL", names.session("held"), names.session_state("held"))


class Changing:
    """A catalogue during whose writes something happens."""

    def __init__(self, inner: Catalogue, happening: Any) -> None:
        self._inner = inner
        self._happening = happening

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def save(self, rows: list[CatalogueRow]) -> None:
        await self._inner.save(rows)
        await self._happening()


async def test_a_session_that_changes_while_its_row_is_written(
    url: str, client: redis.Redis, catalogue_settings: Config
) -> None:
    """What was committed is not what stands there: it is put away anew before it may go."""
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        catalogue=catalogue_settings,
        session=settings.SessionSettings(open_ttl_s=OPEN_TTL_S, closed_ttl_s=CLOSED_TTL_S),
    )
    link = Link(config.redis)
    await functions.load(link)
    ttl_s = OPEN_TTL_S
    await link.do(*open_closed("run-1", config.keys, ttl_s=ttl_s))
    await link.do("ZADD", config.keys.session_index(), 1, "run-1")
    catalogue = factory.create(config)

    async def rename() -> None:
        await link.do(*change_closed("run-1", config.keys, b'{"new":1}', ttl_s=OPEN_TTL_S))

    archivist = CatalogueWriter(link, Changing(catalogue, rename), config)  # type: ignore[arg-type]
    archivist.mark_changed("run-1")
    await archivist.flush()
    assert lives_on(client, "run-1"), "the row that was committed is an older one"
    assert client.zscore("rtas:idx", "run-1") is not None
    quiet = CatalogueWriter(link, catalogue, config)
    quiet.mark_changed("run-1")
    await quiet.flush()
    assert not lives_on(client, "run-1")
    row = await catalogue.get("run-1")
    assert row is not None
    assert (row.version, row.json) == (2, '{"new":1}')
    await catalogue.close()
    await link.close()


async def test_a_write_that_fails_deletes_nothing(url: str, client: redis.Redis, catalogue_settings: Config) -> None:
    """Whatever the reason is, everything stays in Redis and is written at the next try."""
    config = settings.Settings(redis=settings.RedisSettings(url=url), catalogue=catalogue_settings)
    link = Link(config.redis)
    await functions.load(link)
    ttl_s = config.session.open_ttl_s
    await link.do(*open_closed("run-1", config.keys, ttl_s=ttl_s))
    catalogue = factory.create(config)
    reasons = iter(["the disk is full", "it is read-only", "the file can't be opened"])

    class Failing(Changing):
        async def save(self, rows: list[CatalogueRow]) -> None:
            if reason := next(reasons, None):
                raise errors.CatalogueUnavailable(path="x", reason=reason)
            await self._inner.save(rows)

    archivist = CatalogueWriter(link, Failing(catalogue, None), config)  # type: ignore[arg-type]
    archivist.mark_changed("run-1")
    for _ in range(3):
        await archivist.flush()
        assert lives_on(client, "run-1", more_than_s=config.session.closed_ttl_s)
    await archivist.flush()
    assert not lives_on(client, "run-1", more_than_s=config.session.closed_ttl_s)
    await catalogue.close()
    await link.close()


def test_postgres_restarted_while_sessions_end(url: str, client: redis.Redis, shared_postgres: postgres.Server) -> None:
    """The database goes and comes back in the middle: every session is in it before it may go."""
    with shared_postgres.schema() as config, supervisors.running(url, quick(config)) as supervisor:
        sessions = rta_writers.SessionClient(url, timeout_s=20)
        opened = [sessions.session(f"run-{number}", stream="rig") for number in range(1, 9)]
        wait_until(lambda: len(rows(config)) == 8, what="the rows")
        opened[0].close()
        shared_postgres.stop()
        for one in opened[1:]:
            one.close()
        supervisor.wait_for_event("catalogue_behind")
        assert all(lives_on(client, one.identity) for one in opened[1:])
        shared_postgres.start()
        wait_until(lambda: not any(lives_on(client, one.identity) for one in opened), what="short lives")
        assert set(rows(config).values()) == {"closed"}
        supervisor.wait_for_event("catalogue_caught_up")
