"""A host's catalogue follows what other hosts ended, and the reverse."""

from pathlib import Path

import redis

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.catalogue.sync import CatalogueSync
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.recovery.restore import Recovery
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


async def test_a_host_hears_of_what_others_ended(link: Link, tmp_path: Path) -> None:
    """Its own catalogue says so too, and a session that ended and expired meanwhile does not come back."""
    shared = config()
    sessions = SessionStore(link, shared)
    catalogue = SqliteCatalogue(tmp_path / "here.sqlite")
    catalogue_writer = CatalogueWriter(link, catalogue, shared)
    here = supervisor_parts.service(link, shared, sessions, catalogue_writer.mark_changed)
    elsewhere = supervisor_parts.service(link, shared, sessions)
    for identity in ("seen", "expired"):
        text = session.dump(session.build(identity)).decode()
        await here.open(control_entry(), control_pb2.OpenSession(identity=identity, stream="rig", session_json=text))
    await catalogue_writer.flush()
    assert [row.identity for row in await catalogue.unfinished()] == ["seen", "expired"]
    for identity in ("seen", "expired"):
        known = await sessions.read(identity)
        assert known is not None
        await elsewhere.end(known, SessionEvent.FAIL)
    await link.do("UNLINK", NAMES.session("expired"))
    await link.do("UNLINK", NAMES.session_state("expired"))
    restorer = SessionRestorer(sessions, here, RecentReports())
    recovery = Recovery(link, sessions, restorer, catalogue, config=supervisor_parts.required(shared), prepare=())
    follower = CatalogueSync(
        link, sessions, catalogue, shared, on_stale=catalogue_writer.mark_changed, close_again=recovery.close_again
    )
    await follower.sync()
    await catalogue_writer.flush()
    assert [row.identity for row in await catalogue.unfinished()] == ["expired"]
    assert (await recovery.restore(is_start=True))[0] == 0
    assert await catalogue.unfinished() == []
    assert await sessions.read("expired") is None
    await catalogue.close()


async def test_a_host_follows_in_both_directions(client: redis.Redis, world: World) -> None:
    """What another one ended and let go is over here too, and what only this one knows to be over ends there."""
    for identity in ("let-go", "over-here"):
        await world.open(identity)
    elsewhere = supervisor_parts.service(world.link, settings.Settings(), world.sessions)
    await elsewhere.end(await world.record("let-go"), SessionEvent.CLOSE)
    client.zrem(NAMES.session_index(), "let-go")
    await world.save("over-here", state=State.FAILED)
    further = {"on_stale": world.catalogue_writer.mark_changed, "close_again": world.recovery.close_again}
    follower = CatalogueSync(world.link, world.sessions, world.catalogue, settings.Settings(), **further)  # type: ignore[arg-type]
    await follower.sync()
    await world.catalogue_writer.flush()
    assert await world.unfinished() == []
    assert (await world.record("over-here")).state is State.FAILED
