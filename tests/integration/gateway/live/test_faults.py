"""Redis, the gateway and the supervisor end under viewers: they go on, and nothing is missing."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
import redis

import rta_writers
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.embedded import server
from rta_supervisor.settings import settings
from rta_supervisor.transport import function_loader
from rta_supervisor.transport.link import Link
from rta_writers.connection import redis_client
from tests.support import clusters, cold_streams, gateways, sentinels, supervisors
from tests.support.gateways import HandmadeSession, PythonViewer
from tests.support.waiting import wait_until


@pytest.fixture
def durable() -> Iterator[server.EmbeddedServer]:
    """A server that keeps every command when it is killed."""
    options = {"appendonly": "yes", "appendfsync": "always"}
    with server.running(port=server.free_port(), options=options) as own:
        yield own


def settled(viewer: PythonViewer) -> None:
    """Wait until what a viewer asked for has reached the gateway."""
    viewer.read()
    viewer.socket.ping().wait(5)


def test_redis_is_killed_and_comes_back(durable: server.EmbeddedServer) -> None:
    """Viewers stay connected, and have everything that was written before and after."""
    with redis.Redis.from_url(durable.url) as client, gateways.running(durable.url) as gateway:
        session = HandmadeSession(client, "s", "rig", 1)
        session.open()
        viewers = [PythonViewer(gateway, "s") for _ in range(3)]
        viewers[0].subscribe(everything=True)
        viewers[1].subscribe(1)
        for viewer in viewers:
            settled(viewer)
        session.data([1, 2])
        for _ in range(2):
            durable.kill()
            wait_until(lambda: gateway.events("redis_unavailable"), what="the outage")
            durable.start()
            session.data([1, 2])
        viewers[2].subscribe(2)
        settled(viewers[2])
        session.close()
        for viewer, channels in zip(viewers, ([1, 2], [1], [2]), strict=True):
            check_all_seen(viewer, session, channels)


def test_lists_are_refused_while_redis_is_away(durable: server.EmbeddedServer) -> None:
    """Each of them: what was true before an outage says nothing about open sessions."""
    with redis.Redis.from_url(durable.url) as client, gateways.running(durable.url) as gateway:
        HandmadeSession(client, "s", "rig", 1).open()
        wait_until(lambda: b'"open"' in gateway.get("/rta/v2/sessions")[2], what="the session")
        durable.kill()
        wait_until(lambda: gateway.get("/rta/v2/sessions")[0] == 503, what="the outage")
        assert [gateway.get("/rta/v2/sessions")[0] for _ in range(4)] == [503] * 4


def check_all_seen(viewer: PythonViewer, session: HandmadeSession, channels: list[int]) -> None:
    """Nothing is missing at the normal close, and nothing comes again but the last value of a channel."""
    assert viewer.read_to_close(20) == 1000
    standing = session.samples(channels)
    assert set(viewer.samples) == set(standing)
    assert (viewer.samples - standing).total() <= 4 * len(channels)


@pytest.mark.timeout(120)
def test_redis_fails_over_to_a_replica() -> None:
    """Viewers stay connected while Sentinels promote it, and have everything from before and after."""
    with (
        sentinels.running() as watched,
        gateways.running(watched.url) as gateway,
        contextlib.closing(redis_client.connect(watched.url)) as client,
    ):
        session = HandmadeSession(client, "s", "rig", 1)
        session.open()
        session.data([1, 2])
        viewers = [PythonViewer(gateway, "s") for _ in range(2)]
        viewers[0].subscribe(everything=True)
        viewers[1].subscribe(2)
        for viewer in viewers:
            settled(viewer)
        session.data([1, 2])
        assert client.wait(1, 10_000) == 1
        watched.master.kill()
        wait_until(lambda: watched.replica_role() == "master", timeout_s=60, what="the promotion")
        wait_until(lambda: is_written(session), timeout_s=30, what="the new master")
        late = PythonViewer(gateway, "s")
        late.subscribe(1)
        settled(late)
        session.close()
        for viewer, channels in zip((*viewers, late), ([1, 2], [2], [1]), strict=True):
            check_all_seen(viewer, session, channels)


def is_written(session: HandmadeSession) -> bool:
    """Whether a burst could be added."""
    with contextlib.suppress(redis.exceptions.RedisError):
        session.data([1, 2])
        return True
    return False


@pytest.mark.timeout(120)
def test_a_cluster_moves_the_stream_and_loses_its_node() -> None:
    """The slots of a stream and its session move to another node, then a replica takes over from that one."""
    with (
        clusters.running(3, 1) as cluster,
        contextlib.closing(redis_client.connect(cluster.url)) as client,
        gateways.running(cluster.url) as gateway,
    ):
        session = HandmadeSession(client, "s", "rig", 1)
        session.open()
        session.data([1, 2])
        viewers = [PythonViewer(gateway, "s") for _ in range(2)]
        viewers[0].subscribe(everything=True)
        viewers[1].subscribe(2)
        for viewer in viewers:
            settled(viewer)
        for node in (1, 0):
            for key in ("stream:rig", "sessions:s"):
                if cluster.owner(key) != node:
                    cluster.move(key, node)
            session.data([1, 2])
        wait_until(lambda: replicated_bytes(cluster, 3) >= replicated_bytes(cluster, 0), what="the replica")
        cluster.nodes[0].kill()
        wait_until(lambda: is_written(session), timeout_s=30, what="the replica to take over")
        session.close()
        for viewer, channels in zip(viewers, ([1, 2], [2]), strict=True):
            check_all_seen(viewer, session, channels)


def replicated_bytes(cluster: clusters.Cluster, number: int) -> int:
    """How much of what was written a node has."""
    info: Any = cluster.clients[number].info("replication")
    return int(info["master_repl_offset"])


def test_a_day_ends_under_its_viewers(client: redis.Redis, url: str) -> None:
    """A session keeps the stream of its day past midnight, the next one has that of the new day, and the old day is
    removed when it is over: viewers of both have everything."""
    old = HandmadeSession(client, "old", "rig.20261117", 1)
    old.open()
    with gateways.running(url) as gateway:
        viewers = {"old": PythonViewer(gateway, "old")}
        viewers["old"].subscribe(1)
        settled(viewers["old"])
        old.data([1, 2])
        new = HandmadeSession(client, "new", "rig.20261118", 2)
        new.open()
        viewers["new"] = PythonViewer(gateway, "new")
        viewers["new"].subscribe(1)
        settled(viewers["new"])
        for session in (old, new):
            session.data([1, 2])
        expected = set(old.samples([1]))
        viewers["old"].read_until(lambda: set(viewers["old"].samples) == expected)
        old.close()
        # Before the day is removed: the end of a session that was not read yet would be missing, and be called so.
        viewers["old"].read_until(lambda: viewers["old"].documents[-1]["state"] == "closed")
        client.unlink("stream:rig.20261117")
        assert viewers["old"].read_to_close(20) == 1000
        assert set(viewers["old"].samples) == expected
        late = PythonViewer(gateway, "old")
        assert late.read_to_close() == 1000
        assert [document["state"] for document in late.documents] == ["closed"]
        new.data([1, 2])
        new.close()
        check_all_seen(viewers["new"], new, [1])
        assert not gateway.events("gateway_gap")


def test_a_supervisor_is_killed_under_viewers(url: str) -> None:
    """What is written meanwhile comes at once, and the one that takes over ends the session for them."""
    with gateways.running(url) as gateway, supervisors.running(url) as first, redis.Redis.from_url(url) as client:
        session = rta_writers.SessionClient(url, timeout_s=20).open("s", stream="rig")
        number: Any = client.hget("sessions:s", "streamSessionId")
        handmade = HandmadeSession(client, "s", "rig", int(number))
        viewer = PythonViewer(gateway, "s")
        viewer.subscribe(1)
        settled(viewer)
        handmade.data([1])
        first.kill()
        handmade.data([1])
        viewer.read_until(lambda: set(viewer.samples) == set(handmade.samples([1])))
        with supervisors.running(url):
            session.close()
            check_all_seen(viewer, handmade, [1])


def test_a_stream_that_redis_lost_is_read_from_its_new_start(client: redis.Redis, url: str) -> None:
    """Ids of the new stream may be lower: XREAD alone would wait for ever."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    client.xadd("stream:rig", {"id": "9", "data": b"x"}, id="9999999999999-0")
    with gateways.running(url) as gateway:
        viewer = PythonViewer(gateway, "s")
        viewer.subscribe(1)
        settled(viewer)
        client.delete("stream:rig")
        session.data([1])
        viewer.read_until(lambda: set(viewer.samples) == set(session.samples([1])), 15)
        viewer.close()


def test_a_stream_that_is_compacted_under_its_viewers(client: redis.Redis, url: str) -> None:
    """A viewer that was there goes on, and one that joins has the cold part as back-fill."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.next_id_ms = cold_streams.now_ms() - 2 * cold_streams.HOUR_MS
    session.open()
    for _ in range(50):
        session.data([1, 2])
    before = session.samples([1])
    cold_streams.fill(client, "rig", [])
    with gateways.running(url, {"RTA_GATEWAY__BACKFILL_S": "10000"}) as gateway:
        early = PythonViewer(gateway, "s")
        early.subscribe(1)
        early.read_until(lambda: set(early.samples) == set(before))
        anyio.run(_compact, url)
        assert client.xlen("stream:rig") == 0
        late = PythonViewer(gateway, "s")
        late.subscribe(1)
        late.read_until(lambda: set(late.samples) == set(before))
        session.next_id_ms = None
        session.data([1, 2])
        for viewer in (early, late):
            viewer.read_until(lambda seen=viewer: set(seen.samples) == set(before | session.samples([1])))
            viewer.close()
        assert not gateway.events("gateway_gap")


async def _compact(url: str) -> None:
    link = Link(settings.RedisSettings(url=url))
    catalogue = SqliteCatalogue(cold_streams.scratch_catalogue_path())
    try:
        await function_loader.load(link)
        await cold_streams.compactor(link, catalogue).sweep()
    finally:
        await catalogue.close()
        await link.close()


def test_a_gateway_that_is_killed_is_replaced_by_another(client: redis.Redis, url: str) -> None:
    """Viewers that come again at another gateway have everything between what they saw and now."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    stop = threading.Event()

    def write() -> None:
        with redis.Redis.from_url(url) as own:
            writing = HandmadeSession(own, "s", "rig", 1)
            while not stop.is_set():
                writing.data([1, 2])
                stop.wait(0.002)

    writer = threading.Thread(target=write)
    with gateways.running(url) as first, gateways.running(url) as second:
        viewer = PythonViewer(first, "s")
        viewer.subscribe(1)
        settled(viewer)
        writer.start()
        viewer.read_until(lambda: len(viewer.samples) > 200)
        first.kill()
        assert viewer.read_to_close() == 1006
        again = PythonViewer(second, "s")
        again.subscribe(1)
        again.read_until(lambda: len(again.samples) > 400)
        stop.set()
        writer.join()
        session.close()
        assert again.read_to_close() == 1000
        assert set(viewer.samples) | set(again.samples) == set(session.samples([1]))
