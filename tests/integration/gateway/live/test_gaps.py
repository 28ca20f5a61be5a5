"""What is trimmed before the gateway has read it is counted, logged and told to every viewer that misses it."""

import os
from typing import Any

import anyio
import pytest
import redis

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.gateway.archived.entry_store import ArchivedEntries
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live import hub_table
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire.pb import stream_pb2
from tests.support import cold_streams, gateways
from tests.support.gateways import HandmadeSession, PythonViewer
from tests.support.waiting import wait_until

SHORT_S = 0.3
QUICK_READS = {"RTA_REDIS__TIMEOUT_S": "1.1"}
"""The gateway waits for entries for two thirds of a second at most."""


def subscribed(gateway: gateways.Gateway, **options: Any) -> PythonViewer:
    viewer = PythonViewer(gateway, "s", **options)
    viewer.subscribe(everything=True)
    viewer.read()
    viewer.socket.ping().wait(5)
    return viewer


def test_what_was_trimmed_in_a_short_pause_is_counted(client: redis.Redis, url: str) -> None:
    """Shorter than a read waits: XREAD goes on behind what was trimmed and does not tell."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    with gateways.running(url) as gateway:
        viewer = PythonViewer(gateway, "s")
        viewer.subscribe(1)
        session.data([1], samples=1)
        viewer.read_until(lambda: set(session.samples()) <= set(viewer.samples))
        missing = 0
        for bursts in (30, 300):
            with gateways.held_up(gateway, SHORT_S):
                for _ in range(bursts):
                    session.data([1], samples=1)
                written = session.samples()
                client.xtrim("stream:rig", maxlen=10, approximate=False)
            left = set(session.samples())
            viewer.read_until(lambda: left <= set(viewer.samples))  # noqa: B023 - used at once
            missing += len(set(written) - set(viewer.samples) - left)
            assert sum(gap["entries"] for gap in gateway.events("gateway_gap")) == missing > 0
        viewer.close()


def test_what_is_trimmed_as_soon_as_it_is_added_is_counted(client: redis.Redis, url: str) -> None:
    """Between two reads, with an entry behind it or without: no reader of the stream can see that it was there."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    with gateways.running(url, QUICK_READS) as gateway:
        viewer = subscribed(gateway)
        for bursts, left, gap_entries in ((5, 1, 4), (3, 0, 7)):
            with client.pipeline(transaction=True) as at_once:
                for _ in range(bursts):
                    HandmadeSession(at_once, "s", "rig", 1).data([1])
                at_once.xtrim("stream:rig", maxlen=left, approximate=False)
                at_once.execute()
            expected = f"rta_gateway_gap_entries_total {float(gap_entries)}"
            wait_until(lambda: expected in gateway.metrics(), what="the gap")  # noqa: B023 - used at once
        assert [gap["entries"] for gap in gateway.events("gateway_gap")] == [4, 3]
        session.close()
        assert viewer.read_to_close() == 1000


def test_a_viewer_that_is_behind_is_told_what_the_gateway_missed(client: redis.Redis, url: str) -> None:
    """It goes on with what is in memory, where those entries are missing: nothing in the stream tells it."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    with gateways.running(url, QUICK_READS | {"RTA_GATEWAY__QUEUE_BYTES": "65536"}) as gateway:
        slow = subscribed(gateway, max_queue=2)
        written = 0
        while "rta_gateway_viewers_behind 1.0" not in gateway.metrics():
            for _ in range(20):
                session.add(noise(session))
            written += 20
        entries = f"rta_gateway_entries_total {float(written)}"
        wait_until(lambda: entries in gateway.metrics(), what="all entries to be read")
        before = session.samples()
        with gateways.held_up(gateway, SHORT_S):
            for _ in range(20):
                session.data([1], samples=1)
            before |= session.samples()
            client.xtrim("stream:rig", maxlen=5, approximate=False)
        session.close()
        assert slow.read_to_close() == 1000
        missing = len(set(before) - set(slow.samples))
        assert sum(gap["entries"] for gap in gateway.events("gateway_gap")) == missing > 0


def noise(session: HandmadeSession) -> stream_pb2.StreamData:
    """A sample that does not compress."""
    session.time_ns += 1_000_000
    message = stream_pb2.StreamData()
    data = message.timestamped_data
    data.channel_id, data.start_timestamp, data.timestamp_deltas_scale = 1, session.time_ns, 1
    data.timestamp_deltas.append(0)
    data.buffer = os.urandom(20_000)
    return message


def test_a_stream_that_somebody_waits_for_is_followed_on(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a viewer takes to join: while Redis refuses to say where a stream ends, it waits."""
    monkeypatch.setattr(hub_table, "LINGER_S", 0.0)

    async def join() -> None:
        config = settings.Settings(redis=settings.RedisSettings(url=url))
        link, catalogue = Link(config.redis), SqliteCatalogue(cold_streams.scratch_catalogue_path())
        hubs = hub_table.HubTable(link, config.keys, GatewayCounts(), ArchivedEntries(catalogue, config))
        async with anyio.create_task_group() as tasks:
            with hubs.joining("rig", tasks) as first, hubs.joining("rig", tasks) as second:
                await hubs.sweep()
                assert (first, len(hubs)) == (second, 1)
                with anyio.fail_after(5):
                    await first.started.wait()
            await hubs.sweep()
            assert not len(hubs)
        await catalogue.close()
        await link.close()

    anyio.run(join)
