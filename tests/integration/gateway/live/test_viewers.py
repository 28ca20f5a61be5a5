"""The WebSocket, against what a plain reader of Redis sees."""

import os
import socket
from collections.abc import Iterator

import pytest
import redis

from rta_wire.pb import stream_pb2
from tests.support import gateways
from tests.support.gateways import Gateway, HandmadeSession, PythonViewer
from tests.support.waiting import wait_until


@pytest.fixture
def gateway(url: str) -> Iterator[Gateway]:
    with gateways.running(url) as running:
        yield running


def test_a_session_from_its_first_message_to_its_close(client: redis.Redis, gateway: Gateway) -> None:
    """The Session JSON alone is first, then the time range; data only after a subscription; then the normal close."""
    session = HandmadeSession(client, "run/1 %", "rig", 7)
    session.open()
    session.time_range(5, 9)
    session.data([1, 2])
    viewer = PythonViewer(gateway, "run/1 %")
    viewer.read()
    assert [message.WhichOneof("data") for message in viewer.bursts[0].data] == ["session_json"]
    viewer.read()
    assert viewer.time_ranges == [(5, 9)]
    session.time_range(5, 10)
    viewer.read()
    assert viewer.time_ranges[-1] == (5, 10)
    assert not viewer.samples
    viewer.subscribe(1)
    viewer.read_until(lambda: set(session.samples([1])) <= set(viewer.samples))
    viewer.subscribe(2)
    session.data([1, 2, 3])
    session.close()
    assert viewer.read_to_close() == 1000
    assert set(viewer.samples) == set(session.samples([1, 2]))
    assert viewer.documents[-1]["state"] == "closed"


def test_a_session_that_is_unknown_is_a_normal_close(gateway: Gateway) -> None:
    """The handshake succeeds, and nothing comes before the close."""
    viewer = PythonViewer(gateway, "nobody")
    assert viewer.socket.subprotocol == gateways.SUBPROTOCOL
    assert viewer.read_to_close() == 1000
    assert viewer.bursts == []


def test_a_late_viewer_gets_the_last_value_of_each_channel_first(client: redis.Redis, url: str) -> None:
    """Also of a channel that was written before anybody watched, and without any back-fill."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    session.data([5, 9])
    for _ in range(40):
        session.data([1, 2])
    with gateways.running(url, {"RTA_GATEWAY__BACKFILL_S": "0"}) as gateway:
        for _ in ("the first viewer", "the second"):
            viewer = PythonViewer(gateway, "s")
            viewer.subscribe(2, 5)
            viewer.read_until(lambda seen=viewer: {channel for channel, _, _ in seen.samples} == {2, 5})
            newest = max(at_ns for channel, at_ns, _ in session.samples([2]))
            assert {at_ns for channel, at_ns, _ in viewer.samples if channel == 2} >= {newest}
            viewer.close()


def test_events_rows_and_bursts_of_other_producers(client: redis.Redis, gateway: Gateway) -> None:
    """Kinds mixed in one burst, a size before the block, rows and periodic data: each viewer gets what it wants."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    viewers = {name: PythonViewer(gateway, "s") for name in ("none", "events", "five", "row", "all")}
    viewers["events"].subscribe(events=True)
    viewers["five"].subscribe(5, 0)
    viewers["row"].subscribe(300)
    viewers["all"].subscribe(everything=True)
    for viewer in viewers.values():
        viewer.read()
        viewer.socket.ping().wait(5)
    mixed = session.messages([5, 6])
    span = stream_pb2.StreamTimeRange(start_time=1, end_time=2)
    mixed.insert(1, stream_pb2.StreamData(time_range=span))
    event = stream_pb2.StreamData()
    event.event.event_definition_id, event.event.status_text = 3, "lap"
    row = stream_pb2.StreamData()
    row.row_data.channel_ids.extend([7, 300, 70000])
    row.row_data.timestamp, row.row_data.buffer = 5, b"abc"
    periodic = stream_pb2.StreamData()
    periodic.periodic_data.samples, periodic.periodic_data.buffer = 2, b"ab"
    session.add(*mixed, event, row, periodic, framing="size-prefixed")
    session.close()
    kinds = {}
    for name, viewer in viewers.items():
        assert viewer.read_to_close() == 1000
        kinds[name] = sorted(
            {str(message.WhichOneof("data")) for burst in viewer.bursts for message in burst.data} - {"session_json"}
        )
    assert kinds == {
        "none": ["time_range"],
        "events": ["event", "time_range"],
        "five": ["periodic_data", "time_range", "timestamped_data"],
        "row": ["row_data", "time_range"],
        "all": ["event", "periodic_data", "row_data", "time_range", "timestamped_data"],
    }
    for name, channels in (("five", [5]), ("all", None)):
        written = session.samples(channels)
        assert set(viewers[name].samples) == set(written)
        # What came before the last values were looked up may be among them.
        assert max((viewers[name].samples - written).values(), default=0) <= 1


def test_a_slow_viewer_is_served_everything_and_holds_up_nobody(client: redis.Redis, url: str) -> None:
    """Past its queue it is served from Redis where it left off; another viewer has everything meanwhile."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    with gateways.running(url, {"RTA_GATEWAY__QUEUE_BYTES": "65536"}) as gateway:
        slow, quick = PythonViewer(gateway, "s", max_queue=2), PythonViewer(gateway, "s")
        for viewer in (slow, quick):
            viewer.subscribe(everything=True)
            viewer.read()
            viewer.socket.ping().wait(5)
        for _ in range(600):
            session.add(*_noise(session))
        session.close()
        assert quick.read_to_close() == 1000
        assert set(quick.samples) == set(session.samples())
        assert "rta_gateway_viewers_behind 1.0" in gateway.metrics()
        assert slow.read_to_close() == 1000
        assert set(slow.samples) == set(session.samples())
        # The last value from before a subscription may be among what comes live.
        assert max(slow.samples.values()) <= 2
        assert slow.samples.total() - len(slow.samples) <= 5
        assert "rta_gateway_gap_entries_total 0.0" in gateway.metrics()


def test_what_was_trimmed_before_a_slow_viewer_had_it_is_counted(client: redis.Redis, url: str) -> None:
    """Everything else comes, and the gap is logged and shown."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    with gateways.running(url, {"RTA_GATEWAY__QUEUE_BYTES": "65536"}) as gateway:
        slow = PythonViewer(gateway, "s", max_queue=2)
        slow.subscribe(everything=True)
        slow.read()
        slow.socket.ping().wait(5)
        for _ in range(800):
            session.add(*_noise(session))
        wait_until(lambda: "rta_gateway_viewers_behind 1.0" in gateway.metrics(), what="a viewer that is behind")
        wait_until(lambda: "rta_gateway_entries_total 800.0" in gateway.metrics(), what="all entries to be read")
        before = session.samples()
        client.xtrim("stream:rig", maxlen=50, approximate=False)
        session.close()
        assert slow.read_to_close() == 1000
        [gap] = gateway.events("gateway_gap")
        missing = before - slow.samples
        assert set(session.samples()) <= set(slow.samples)
        assert gap["exact"]
        assert len({at_ns for _, at_ns, _ in missing}) == gap["entries"] > 0
        assert f"rta_gateway_gap_entries_total {float(gap['entries'])}" in gateway.metrics()


def _noise(session: HandmadeSession) -> list[stream_pb2.StreamData]:
    """A burst of one sample that does not compress."""
    session.time_ns += 1_000_000
    message = stream_pb2.StreamData()
    data = message.timestamped_data
    data.channel_id, data.start_timestamp, data.timestamp_deltas_scale = 1, session.time_ns, 1
    data.timestamp_deltas.append(0)
    data.buffer = os.urandom(20_000)
    return [message]


def test_a_viewer_that_comes_after_the_end_has_the_data_too(client: redis.Redis, gateway: Gateway) -> None:
    """The JSON of the closed state first, the back-fill where it subscribes, then the normal close."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    for _ in range(300):
        session.data([1, 2])
    session.close()
    viewer, silent = PythonViewer(gateway, "s"), PythonViewer(gateway, "s")
    viewer.subscribe(1)
    assert viewer.read_to_close() == silent.read_to_close() == 1000
    assert viewer.documents[0]["state"] == "closed"
    assert set(viewer.samples) == set(session.samples([1]))
    assert [document["state"] for document in silent.documents] == ["closed"]


def test_entries_that_are_no_bursts_cost_nothing_else(client: redis.Redis, url: str) -> None:
    """Entries of other programs stand between: a back-fill, a viewer that is slow and one that is not have all else."""
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()

    def write() -> None:
        for number in range(300):
            session.add(*_noise(session))
            if number % 40 == 10:  # the last ones are in the last page of a back-fill
                client.xadd("stream:rig", {"other": "x"})
                client.xadd("stream:rig", {"id": "1", "data": b"no burst"})

    write()
    with gateways.running(url, {"RTA_GATEWAY__QUEUE_BYTES": "65536"}) as gateway:
        viewers = [PythonViewer(gateway, "s", max_queue=2), PythonViewer(gateway, "s")]
        for viewer in viewers:
            viewer.subscribe(everything=True)
            viewer.read()
        viewers[1].read_until(lambda: len(viewers[1].samples) == 300)
        write()
        session.close()
        for viewer in reversed(viewers):
            assert viewer.read_to_close(20) == 1000
            assert len(viewer.samples) == 600


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 400),
        ({"Upgrade": "websocket", "Connection": "Upgrade"}, 406),
        ({"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Protocol": "chat"}, 406),
        ({"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Protocol": gateways.SUBPROTOCOL}, 400),
    ],
    ids=["no upgrade", "no sub-protocol", "another sub-protocol", "no key"],
)
def test_handshakes_that_are_refused(gateway: Gateway, headers: dict[str, str], status: int) -> None:
    """400 without an upgrade and 406 without the sub-protocol."""
    assert gateway.get("/rta/v2/sessions/s/stream", headers)[0] == status


def test_headers_of_an_upgrade_may_be_long(client: redis.Redis, gateway: Gateway) -> None:
    """As long as REST takes them: a signed token with many prefixes is."""
    HandmadeSession(client, "s", "rig", 1).open()
    viewer = PythonViewer(gateway, "s", additional_headers={"X-Token": "x" * 16_000})
    assert viewer.read() is not None
    viewer.close()


def test_an_upgrade_of_an_older_http_is_refused(gateway: Gateway) -> None:
    """HTTP/1.0 has none."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as connection:
        connection.sendall(
            b"GET /rta/v2/sessions/s/stream HTTP/1.0\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Protocol: mat.ocs.rta.stream-lz4\r\n\r\n"
        )
        assert connection.recv(100).split()[1] == b"400"
