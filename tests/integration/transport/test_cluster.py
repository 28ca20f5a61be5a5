"""A real Cluster: the whole path, a slot that moves under load, an owner that is killed."""

import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest
import redis

import rta_writers
from rta_supervisor.observe.tail import SourceTail
from rta_supervisor.observe.tail_start import TailStart
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.retention.day_sweep import DaySweep
from rta_supervisor.session.records.reader import RecordReader
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, server_check
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, errors, keys
from rta_wire.control.totals import Totals
from rta_writers.connection import redis_client
from rta_writers.options import read as options_read
from rta_writers.read import batches
from rta_writers.read import plan as read_plan
from rta_writers.write.delivery.exactly_once import ExactlyOnceAppender
from tests.support import clusters, samples, supervisors
from tests.support import day_streams as by_day
from tests.support.control import document, fields
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

PRINCIPALS = {"RTA_CONTROL__PRINCIPALS": '["default", "a", "b", "c"]', "RTA_NODE__LEASE_S": "1.5"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[clusters.Cluster]:
    with clusters.running(3, replicas=1) as running:
        yield running


@pytest.fixture(scope="module")
def watching(cluster: clusters.Cluster) -> Iterator[Supervisor]:
    with supervisors.running(cluster.url, PRINCIPALS) as running:
        yield running


@pytest.fixture
def sessions(cluster: clusters.Cluster, watching: Supervisor) -> rta_writers.SessionClient:  # noqa: ARG001
    return rta_writers.SessionClient(cluster.url, timeout_s=60)


@pytest.fixture
def client(cluster: clusters.Cluster) -> Iterator[redis.Redis]:
    with contextlib.closing(redis_client.connect(cluster.url)) as client:
        yield client


@pytest.fixture
async def link(cluster: clusters.Cluster) -> AsyncIterator[Link]:
    link = Link(settings.RedisSettings(url=cluster.url))
    yield link
    await link.close()


class Load:
    """A writer in a thread that appends rows one after another until it is stopped."""

    def __init__(self, client: redis.Redis, session: rta_writers.Session) -> None:
        self.appender = ExactlyOnceAppender(client, session.target, unit="u", epoch=0)
        self.rows = 0
        self.error: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                first = self.rows
                self.appender.append(5, lambda skip, first=first: samples.bursts(5 - skip, first=first + skip))  # type: ignore[misc]
                self.rows += 5
        except BaseException as error:  # noqa: BLE001 - `stop` reports it
            self.error = error

    def stop(self) -> Totals:
        self._stopping.set()
        self._thread.join(60)
        assert self.error is None, self.error
        totals = self.appender.totals()
        self.appender.close()
        return totals


def check(client: redis.Redis, session: rta_writers.Session, ended: Any, load: Load) -> None:
    """Every row stands in the stream once and in order, between the first and the last entry of the session."""
    assert (ended.state, ended.totals.samples) == ("closed", load.rows)
    values = [value for _, _, value in samples.rows(client, session.target.stream)]
    assert values == [float(n) for n in range(load.rows)]
    kinds = samples.kinds(client, session.target.stream, session.target.stream_session_id)
    assert (kinds[0], kinds[-1]) == ("session_json", "session_json")


async def test_replies_come_in_order_from_all_nodes(link: Link) -> None:
    """Replies to a batch over all slots come in the order of their commands, errors among them."""
    names = [f"key-{number}" for number in range(300)]
    await link.do_all([("SET", name, name, "EX", 60) for name in names])
    assert await link.do_all([("GET", name) for name in names]) == [name.encode() for name in names]
    replies = await link.try_all([("GET", "key-1"), ("LPUSH", "key-2", 1), ("ECHO", "x"), ("GET", "key-3")])
    assert (replies[0], replies[2], replies[3]) == (b"key-1", b"x", b"key-3")
    assert "WRONGTYPE" in str(replies[1])
    assert len(await link.do_on_primaries("PING")) == 3
    slots = [keys.key_slot(f"{{{tag}}}") for tag in await link.topology.find_primary_tags()]
    assert len(slots) == 3


async def test_moved_and_half_moved_slots_are_found(link: Link, cluster: clusters.Cluster) -> None:
    """Each command of a batch is done once by the node that has its keys, before, during and after a move."""
    tagged = [f"{{count}}:{number}" for number in range(20)]
    await link.do_all([("INCR", name) for name in tagged])
    source = cluster.owner("{count}:0")
    target = (source + 1) % 3
    mover = threading.Thread(target=cluster.move, args=("{count}:0", target), kwargs={"pause_s": 0.02})
    mover.start()
    rounds = 1
    while mover.is_alive():
        await link.do_all([("INCR", name) for name in tagged])
        rounds += 1
    mover.join()
    assert await link.do_all([("INCR", name) for name in tagged]) == [rounds + 1] * 20
    assert rounds > 2, "the move was over too soon"
    await link.do_all([("UNLINK", name) for name in tagged])


async def test_a_record_is_read_after_the_command_also_while_its_slot_moves(
    link: Link, cluster: clusters.Cluster, sessions: rta_writers.SessionClient
) -> None:
    """One of a session's keys is on another node already: the command on both has to wait, and what is read with it
    is what it left, not what stood there before."""
    sessions.session("half-moved", stream="rig-half-moved")
    state, document = keys.Keys().session_state("half-moved"), keys.Keys().session("half-moved")
    records = RecordReader(link, settings.Settings())
    source = cluster.owner(state)
    target = (source + 1) % 3
    cluster.begin_move(state, target)
    answers: list[Any] = []

    async def remove() -> None:
        answers.extend(await records.call_and_read(("UNLINK", state, document), "half-moved"))

    def is_refused() -> bool:
        stats: Any = cluster.clients[source].info("errorstats")
        return "errorstat_TRYAGAIN" in stats

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(remove)
        await anyio.to_thread.run_sync(lambda: wait_until(is_refused, what="a command that has to be tried again"))
        await anyio.to_thread.run_sync(cluster.move, state, target)
    assert answers == [2, None]


async def test_every_node_has_to_keep_what_it_has(link: Link, cluster: clusters.Cluster) -> None:
    """A Cluster is refused if one of its nodes evicts keys."""
    await server_check.check(link)
    cluster.clients[1].config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(errors.RedisUnsuitable, match="noeviction"):
        await server_check.check(link)
    cluster.clients[1].config_set("maxmemory-policy", "noeviction")


def test_a_whole_life_in_a_cluster(
    client: redis.Redis, cluster: clusters.Cluster, sessions: rta_writers.SessionClient
) -> None:
    """Open, write, update, pause, read back, close, for principals whose control streams are in different slots."""
    slots = {keys.key_slot(keys.Keys().requests(name)) for name in ("default", "a", "b", "c")}
    assert len(slots) == 4
    for principal in ("a", "b", "c"):
        owner = rta_writers.SessionClient(cluster.url, principal=principal, timeout_s=60)
        session = owner.session(f"run-{principal}", stream=f"rig-{principal}", details={"Rig": 4})
        appender = ExactlyOnceAppender(client, session.target, unit="u", epoch=0)
        appender.append(7, lambda skip: samples.bursts(7 - skip, first=skip))
        totals = appender.totals()
        appender.close()
        session.update(group="g")
        session.pause()
        owner.wait(session.identity, "waiting", timeout_s=20)
        options = options_read.ReadOptions.parse({"redisUrl": cluster.url, "stream": f"rig-{principal}"})
        # Before it is closed: the index is of live sessions.
        (early_range,) = read_plan.plan_batch(client, options)
        ended = session.close(expected=totals)
        assert (ended.state, ended.totals.samples) == ("closed", 7)
        assert document(client, session.identity)["group"] == "g"
        assert fields(client, session.identity)["tEnd"] == str(samples.START_NS + 6)
        assert early_range.identities == {session.target.stream_session_id: session.identity}
        values = [
            row["value"]
            for stream_range in read_plan.plan_batch(client, options)
            for batch in batches.read_batches(options, stream_range, batches.RowFilter())
            for row in batch.to_pylist()
        ]
        assert values == [float(n) for n in range(7)]
    with pytest.raises(errors.SessionConflict):
        sessions.update("run-a", group="not mine")


async def test_days_in_a_cluster(link: Link, client: redis.Redis, watching: Supervisor) -> None:  # noqa: ARG001
    """Index, streams and names live in different slots: each step is about one of them, and a day goes as a whole."""
    config = by_day.config()
    old, new = day_streams.Day("daily", by_day.TODAY - 3), day_streams.Day("daily", by_day.TODAY)
    by_day.fill(client, new)
    by_day.fill(client, old, cold=True)
    client.hdel(by_day.NAMES.cold_index(), old.stream)
    options = options_read.ReadOptions.parse({"redisUrl": link.config.url, "stream": "daily"})
    assert [part.stream for part in read_plan.plan_batch(client, options)] == [old.stream, new.stream]
    tail = SourceTail(link, config, "daily").follow(TailStart(is_from_start=True))
    assert [(await anext(tail))[0] for _ in range(6)] == [old.stream] * 3 + [new.stream] * 3
    assert await DayIndex(link, config, by_day.Clock()).stream_for("daily") == new.stream
    assert await DayIndex(link, config, by_day.Clock(0)).stream_for("daily") == new.stream
    swept = await DaySweep(link, config, by_day.Clock()).sweep({old.stream: old.start_ms}, (), commands.FOREVER)
    assert swept.removed == (old.stream,)
    assert by_day.traces(client, old) == set()
    assert by_day.indexed_streams(client, "daily") == [new.stream]


def test_a_slot_moves_under_load(
    client: redis.Redis, cluster: clusters.Cluster, sessions: rta_writers.SessionClient
) -> None:
    """Stream, gate, marks and session hash go to another node while a writer appends: rows in are rows out, once."""
    session = sessions.session("moving", stream="moving")
    load = Load(client, session)
    wait_until(lambda: load.rows > 50 or load.error, what="some rows")
    for key in ("stream:moving", "sessions:moving"):
        cluster.move(key, (cluster.owner(key) + 1) % 3, pause_s=0.05)
        cluster.move(key, (cluster.owner(key) + 1) % 3)
    before = load.rows
    wait_until(lambda: load.rows > before + 50 or load.error, what="more rows")
    totals = load.stop()
    check(client, session, session.close(expected=totals), load)


@pytest.mark.timeout(180)
def test_an_owner_is_killed(
    client: redis.Redis, cluster: clusters.Cluster, watching: Supervisor, sessions: rta_writers.SessionClient
) -> None:
    """A replica takes over from a primary that is killed. It was in step, so nothing is lost, and writers go on."""
    primary = next(
        number for number in range(3) if client_role(cluster, number) == "master" and has_replica(cluster, number)
    )
    name = next(f"rig-{n}" for n in range(1000) if cluster.owner(f"stream:rig-{n}") == primary)
    session = sessions.session("bereft", stream=name)
    load = Load(client, session)
    wait_until(lambda: load.rows > 50 or load.error, what="some rows")
    load.stop()
    cluster.clients[primary].execute_command("WAIT", 1, 5000)
    cluster.nodes[primary].kill()
    again = ExactlyOnceAppender(client, session.target, unit="v", epoch=0)
    again.append(3, lambda skip: samples.bursts(3 - skip, first=load.rows + skip))
    again.totals()
    again.close()
    load.rows += 3
    watching.wait_for_event("redis_made_whole")
    assert watching.events("session_lost_data") == []
    check(client, session, session.close(expected=Totals(samples=load.rows)), load)


def client_role(cluster: clusters.Cluster, number: int) -> str:
    info: Any = cluster.clients[number].info("replication")
    return str(info["role"])


def has_replica(cluster: clusters.Cluster, number: int) -> bool:
    info: Any = cluster.clients[number].info("replication")
    return bool(info["connected_slaves"])
