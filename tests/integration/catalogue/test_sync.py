"""The catalogue of a host gets the ends of sessions from other hosts, and the reverse."""

from pathlib import Path

import anyio
import anyio.lowlevel
import redis

from rta_supervisor.catalogue.session_queries import SessionQueries
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.catalogue.sync import CatalogueSync
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.recovery.recovery import Recovery, RecoverySteps
from rta_supervisor.recovery.session_restorer import SessionRestorer
from rta_supervisor.session.recent_reports import RecentReports
from rta_supervisor.session.state_machine import SessionEvent
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys, session
from rta_wire.pb import control_pb2
from rta_wire.session import State
from tests.support import supervisor_parts
from tests.support.session_values import control_entry
from tests.support.supervisor_parts import World, config

NAMES = keys.Keys()


async def test_a_catalogue_gets_the_ends_of_other_hosts(link: Link, tmp_path: Path) -> None:
    """And a session that ended and expired meanwhile is not restored."""
    shared_config = config()
    sessions = SessionStore(link, shared_config)
    catalogue = SqliteCatalogue(tmp_path / "here.sqlite")
    writer = CatalogueWriter(link, catalogue, shared_config)
    here = supervisor_parts.service(link, shared_config, sessions, writer.mark_changed)
    elsewhere = supervisor_parts.service(link, shared_config, sessions)
    for identity in ("seen", "expired"):
        text = session.dump(session.build(identity)).decode()
        await here.open(control_entry(), control_pb2.OpenSession(identity=identity, stream="rig", session_json=text))
    await writer.flush()
    assert [row.identity for row in await catalogue.unfinished()] == ["seen", "expired"]
    for identity in ("seen", "expired"):
        record = await sessions.read(identity)
        assert record is not None
        await elsewhere.end(record, SessionEvent.FAIL)
    await link.do("UNLINK", NAMES.session("expired"))
    await link.do("UNLINK", NAMES.session_state("expired"))
    restorer = SessionRestorer(sessions, here, RecentReports())
    recovery = Recovery(
        link, sessions, restorer, catalogue, config=supervisor_parts.required(shared_config), steps=RecoverySteps()
    )
    catalogue_sync = CatalogueSync(
        link, sessions, catalogue, shared_config, on_stale=writer.mark_changed, close_reopened=recovery.close_reopened
    )
    await catalogue_sync.sync()
    await writer.flush()
    assert [row.identity for row in await catalogue.unfinished()] == ["expired"]
    assert (await recovery.restore(is_start=True))[0] == 0
    assert await catalogue.unfinished() == []
    assert await sessions.read("expired") is None
    await catalogue.close()


async def test_a_search_finds_what_another_supervisor_has_opened(link: Link, tmp_path: Path) -> None:
    """Before the next sync, also a session that was opened after the search before."""
    shared_config = config()
    catalogue = SqliteCatalogue(tmp_path / "here.sqlite")
    writer = CatalogueWriter(link, catalogue, shared_config)
    elsewhere = supervisor_parts.service(link, shared_config, SessionStore(link, shared_config))
    queries = SessionQueries(link, shared_config, catalogue, writer, elsewhere.external_ids)

    async def open_elsewhere(identity: str) -> None:
        text = session.dump(session.build(identity)).decode()
        request = control_pb2.OpenSession(identity=identity, stream="rig", session_json=text)
        await elsewhere.open(control_entry(), request)

    async def find() -> list[str]:
        page = await queries.search(control_entry(), control_pb2.ListSessions(stream="rig"))
        return [found.identity for found in page.sessions]

    await open_elsewhere("run-1")
    assert await find() == ["run-1"]
    await open_elsewhere("run-2")
    with anyio.fail_after(10):
        while await find() != ["run-2", "run-1"]:
            pass  # a look at few sessions is due again within some milliseconds
    await catalogue.close()


async def test_what_a_supervisor_served_before_it_stopped_is_synced(world: World) -> None:
    """Once more, also where no other one is left."""
    stale: list[str] = []
    often = config(session=settings.SessionSettings(closed_ttl_s=1))
    catalogue_sync = CatalogueSync(
        *(world.link, world.sessions, world.catalogue, often),
        on_stale=stale.append,
        close_reopened=anyio.lowlevel.checkpoint,
    )
    await world.link.do("ZADD", NAMES.nodes(), 2**50, "here", 2**50, "elsewhere")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(catalogue_sync.run)
            await world.open("first")
            while "first" not in stale:
                await anyio.lowlevel.checkpoint()
            await world.open("last")
            await world.link.do("ZREM", NAMES.nodes(), "elsewhere")
            while "last" not in stale:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()


async def test_ends_are_synced_in_both_directions(client: redis.Redis, world: World) -> None:
    """A session that another host ended is closed in this catalogue, and one that is closed here is ended in Redis."""
    for identity in ("ended-there", "ended-here"):
        await world.open(identity)
    elsewhere = supervisor_parts.service(world.link, settings.Settings(), world.sessions)
    await elsewhere.end(await world.record("ended-there"), SessionEvent.CLOSE)
    client.zrem(NAMES.session_index(), "ended-there")
    await world.save("ended-here", state=State.FAILED)
    callbacks = {"on_stale": world.catalogue_writer.mark_changed, "close_reopened": world.recovery.close_reopened}
    catalogue_sync = CatalogueSync(world.link, world.sessions, world.catalogue, settings.Settings(), **callbacks)  # type: ignore[arg-type]
    await catalogue_sync.sync()
    await world.catalogue_writer.flush()
    assert await world.unfinished() == []
    assert (await world.record("ended-here")).state is State.FAILED
