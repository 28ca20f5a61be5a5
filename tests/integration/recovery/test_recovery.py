"""What a start and a loss put right, step by step, on a real server: what is whole stays as it is."""

import anyio
import pytest
import redis

import rta_writers
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.channels.sync import ConfigSync
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.recovery.loss_detector import LossDetector
from rta_supervisor.recovery.resurrection import Resurrection
from rta_supervisor.session.state_machine import SessionEvent
from rta_supervisor.settings import settings
from rta_wire import keys, session
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State
from rta_wire.stream import cold_index
from tests.support import cold_streams, supervisors
from tests.support.session_values import control_entry
from tests.support.supervisor_parts import World

NAMES = keys.Keys()


def forget(client: redis.Redis, identity: str = "run-1") -> None:
    client.delete(NAMES.session(identity), NAMES.session_state(identity))


@pytest.mark.parametrize("is_start", [True, False])
async def test_what_is_whole_stays_as_it_is(client: redis.Redis, world: World, is_start: bool) -> None:
    """In Redis and in the catalogue: a session that is there has not ended elsewhere."""
    await world.open()
    before = (client.xlen("stream:rig"), client.hgetall(NAMES.session_state("run-1")))
    assert await world.recovery.restore(is_start=is_start) == (0, 0)
    assert (client.xlen("stream:rig"), client.hgetall(NAMES.session_state("run-1"))) == before
    assert await world.unfinished() == ["run-1"]


async def test_a_loss_is_found_by_whoever_asks_for_one(client: redis.Redis, world: World) -> None:
    """Without a loss there is none, however many ask at once. One is restored before the answer, and known later."""
    detector = LossDetector(world.link, keys.Keys(), "node")
    began_ms = now_ms()
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(world.recovery.has_lost_since, detector, began_ms)
    assert not await world.recovery.has_lost_since(detector, began_ms)
    client.flushall()
    assert await world.recovery.has_lost_since(detector, began_ms)
    assert client.function_list(library="rtas_session_2"), "the server functions are back"
    assert await world.recovery.has_lost_since(detector, began_ms)
    assert not await world.recovery.has_lost_since(detector, now_ms() + 1)


async def test_what_stands_beside_a_session_is_put_back(client: redis.Redis, world: World) -> None:
    """In a Cluster each of them may be lost with another server."""
    ref = await world.open()
    gate = NAMES.gate(ref.stream, ref.stream_session_id)
    for lost in (gate, keys.STREAMS, NAMES.session_index()):
        client.delete(lost)
        await world.recovery.restore()
        assert client.get(gate) == b"open", lost
        assert client.sismember(keys.STREAMS, "rig"), lost
        assert client.zscore(NAMES.session_index(), "run-1") is not None, lost


async def test_who_is_gone_is_back_after_a_loss_and_has_ended_before_a_start(client: redis.Redis, world: World) -> None:
    """While a supervisor runs nothing ends without it; while it was away others may have ended a session."""
    ref = await world.open()
    forget(client)
    assert await world.recovery.restore() == (1, 0)
    assert (await world.record()).ref == ref
    forget(client)
    assert await world.recovery.restore(is_start=True) == (0, 0)
    assert await world.sessions.read("run-1") is None
    assert await world.unfinished() == []


async def test_what_redis_knows_less_of_is_put_right(world: World) -> None:
    """Newer JSON of the catalogue counts, and more samples than there are is a loss."""
    await world.open()
    newer = session.dump(session.build("run-1", group="newer")).decode()
    await world.save(json=newer)
    assert await world.recovery.restore() == (0, 0)
    assert session.parse((await world.record()).document) == session.parse(newer)
    await world.save(totals=Totals(1, 5, 1, 1, 1, 2))
    assert await world.recovery.restore() == (0, 1)
    assert (await world.record()).lost_data


async def test_a_later_session_does_not_end_with_an_earlier_one(client: redis.Redis, world: World) -> None:
    """Of one identity: the catalogue has both."""
    first = await world.open()
    await world.save(state=State.CLOSED)
    forget(client)
    second = await world.open()
    assert second.stream_session_id > first.stream_session_id
    await world.recovery.close_reopened()
    assert (await world.record()).state is State.OPEN
    await world.save(state=State.CLOSED)
    await world.recovery.close_reopened()
    assert (await world.record()).state is State.CLOSED


async def test_a_closed_session_gets_newer_json_where_somebody_asks(world: World) -> None:
    """Redis came back with a snapshot from before the last change: what the catalogue has of it counts."""
    await world.open()
    await world.service.end(await world.record(), SessionEvent.CLOSE)
    await world.catalogue_writer.flush()
    newer = session.dump({**session.parse((await world.record()).document), "group": "newer"}).decode()
    await world.save(json=newer)
    store = ConfigStore(world.link, keys.Keys(), world.catalogue)
    configs = ConfigSync(world.link, settings.Settings(), store, world.catalogue)
    resurrection = Resurrection(
        *(world.link, world.sessions, world.restorer, world.catalogue, settings.Settings()),
        restore_configs=configs.restore,
    )
    request = control_pb2.ResurrectSession(request_id="one", identity="run-1")
    reply = await resurrection.serve(control_entry("operator"), request)
    assert reply.state == "closed"
    assert session.parse((await world.record()).document) == session.parse(newer)


@pytest.mark.parametrize("spoilt", ["run-1", "run-2"])
async def test_a_spoilt_session_keeps_no_other_from_ending(client: redis.Redis, world: World, spoilt: str) -> None:
    """A writer made something else of the gate of its session."""
    refs = [await world.open(identity) for identity in ("run-1", "run-2")]
    for ref in refs:
        await world.save(ref.identity, state=State.CLOSED)
        if ref.identity == spoilt:
            gate = NAMES.gate(ref.stream, ref.stream_session_id)
            client.delete(gate)
            client.hset(gate, "spoilt", 1)
            client.expire(gate, 100)
    await world.recovery.close_reopened()
    [other] = [ref.identity for ref in refs if ref.identity != spoilt]
    assert (await world.record(other)).state is State.CLOSED


@pytest.mark.parametrize(("published", "version"), [("7 - -", 8), ("1 - -", 2), ("junk", 2), (" ", 2)])
async def test_restored_json_is_newer_than_what_was_published(
    client: redis.Redis, world: World, published: str, version: int
) -> None:
    """Else the next change would not be published. What a writer made up counts as nothing published."""
    ref = await world.open()
    forget(client)
    client.set(NAMES.published(ref.stream, ref.stream_session_id), published, ex=100)
    assert await world.recovery.restore() == (1, 0)
    assert (await world.record()).version == version


def test_ids_of_sessions_go_on_after_a_loss(url: str, client: redis.Redis) -> None:
    """The tail of a stream is cold, and the counter is gone: no id is given out twice."""
    extent = cold_index.ColdExtent("1-0", "9-0", 1, 1, 1, 1, 1, 1, 41, cold_streams.now_ms())
    client.hset(NAMES.cold_index(), "rig", cold_index.dump(extent))
    with supervisors.running(url):
        session = rta_writers.SessionClient(url, timeout_s=20).open("run", stream="rig")
        assert session.target.stream_session_id == 42
        session.close()


async def test_an_external_id_stands_for_its_session_after_a_loss(client: redis.Redis, world: World) -> None:
    """The session and both keys of its id are gone: the id gives the session that was restored, and no second one."""
    text = session.dump(session.build("run-1")).decode()
    request = control_pb2.OpenSession(identity="run-1", stream="rig", session_json=text, external_id="job")
    opened = await world.service.open(control_entry(), request)
    await world.catalogue_writer.flush()
    forget(client)
    client.delete(NAMES.external("default", "job"), NAMES.external_created("default", "job"))
    assert await world.recovery.restore() == (1, 0)
    again = control_pb2.OpenSession(
        identity="run-2", stream="rig", session_json=session.dump(session.build("run-2")).decode(), external_id="job"
    )
    reply = await world.service.open(control_entry(), again)
    assert (reply.identity, reply.stream_session_id) == ("run-1", opened.stream_session_id)
