"""Viewers that send what they should not: a named close, and nobody else notices."""

import contextlib
import os
import re
import socket
import struct
from collections.abc import Iterator

import pytest
import redis

from rta_wire.pb import stream_pb2
from tests.support import gateways
from tests.support.gateways import Gateway, HandmadeSession, PythonViewer
from tests.support.waiting import wait_until

PING = b"\x89\x00"
MEMORY_MAX_BYTES = 60_000_000
"""By how much a gateway may grow under any of this."""

PINGS_MAX_BYTES = 12_000_000
"""By how much it may grow under pings: the queue of the viewer, and some room."""


@pytest.fixture
def gateway(url: str) -> Iterator[Gateway]:
    with gateways.running(url) as running:
        yield running


@pytest.fixture
def session(client: redis.Redis) -> HandmadeSession:
    session = HandmadeSession(client, "s", "rig", 1)
    session.open()
    session.data([1, 2])
    return session


def resident_bytes(gateway: Gateway) -> int:
    with open(f"/proc/{gateway.process.pid}/statm") as file:  # noqa: PTH123 - /proc
        return int(file.read().split()[1]) * 4096


def _queued_bytes(gateway: Gateway) -> float:
    [queued] = re.findall(r"^rta_gateway_queued_bytes (\S+)", gateway.metrics(), re.MULTILINE)
    return float(queued)


def masked(opcode: int, payload: bytes, *, size: int | None = None) -> bytes:
    """A frame of a client, whose length may be a lie."""
    size = len(payload) if size is None else size
    head = bytes([0x80 | opcode]) + (bytes([0x80 | size]) if size < 126 else bytes([0xFF]) + struct.pack("!Q", size))
    return head + bytes(4) + payload


def mute_viewer(gateway: Gateway, *, receive_bytes: int | None = None) -> socket.socket:
    """A viewer that never reads and never answers."""
    viewer = socket.socket()
    if receive_bytes is not None:
        # Before it connects: a window that shrinks later makes the kernel drop acknowledgements too.
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    viewer.settimeout(5)
    viewer.connect(("127.0.0.1", gateway.port))
    viewer.sendall(
        b"GET /rta/v2/sessions/s/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Protocol: mat.ocs.rta.stream-lz4\r\n\r\n"
    )
    return viewer


def raw_socket(viewer: PythonViewer) -> socket.socket:
    return viewer.socket.socket


def test_last_values_wait_in_the_queue_of_a_viewer_as_all_else_does(session: HandmadeSession, gateway: Gateway) -> None:
    """However many there are: one that subscribes and does not read costs no more than its queue."""
    witness = PythonViewer(gateway, "s")
    witness.subscribe(everything=True)
    witness.read()
    witness.socket.ping().wait(5)
    for channel in range(100, 200):
        [message] = session.messages([channel], samples=1)
        message.timestamped_data.buffer = os.urandom(100_000)
        session.add(message)
    witness.read_until(lambda: any(channel == 199 for channel, _, _ in witness.samples))
    request = stream_pb2.StreamRequest()
    request.subscribe.all_data_channels = True
    with contextlib.closing(mute_viewer(gateway, receive_bytes=4096)) as viewer:
        viewer.sendall(masked(2, request.SerializeToString()))
        wait_until(lambda: _queued_bytes(gateway) > 200_000, what="a queue that is not read")
        assert _queued_bytes(gateway) < 1_000_000
    witness.close()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (masked(2, b"\xff\xff\xff garbage"), 1007),
        (masked(1, b"subscribe"), 1003),
        (masked(2, b"x" * 1000, size=1 << 30), 1009),
        (b"\x82\x05hello", 1002),
        (b"\xff" * 64, 1002),
        (masked(2, b"") * 3 + masked(8, struct.pack("!H", 1000)), 1000),
    ],
    ids=["garbage", "text", "1 GiB", "unmasked", "noise", "empty requests and a close"],
)
def test_garbage_is_a_named_close(session: HandmadeSession, gateway: Gateway, sent: bytes, code: int) -> None:
    """Others are served on, and the gateway does not grow."""
    before = resident_bytes(gateway)
    witness, viewer = PythonViewer(gateway, "s"), PythonViewer(gateway, "s")
    witness.subscribe(1)
    viewer.read()
    raw_socket(viewer).sendall(sent)
    assert viewer.read_to_close() == code
    session.data([1])
    witness.read_until(lambda: set(witness.samples) == set(session.samples([1])))
    assert resident_bytes(gateway) - before < MEMORY_MAX_BYTES
    witness.close()


def test_session_json_that_is_nested_without_end(session: HandmadeSession, gateway: Gateway) -> None:
    """Whoever may write a stream may put it there: it is passed on, and ends neither the session nor the gateway."""
    witness = PythonViewer(gateway, "s")
    witness.subscribe(1)
    witness.read_until(lambda: set(witness.samples) == set(session.samples([1])))
    document = '{"state":' + "[" * 2000 + "]" * 2000 + "}"
    session.client.hset(session.hash, "json", document)
    session.add(stream_pb2.StreamData(session_json=document))
    is_passed_on = False
    while not is_passed_on:
        frame = witness.socket.recv(5)
        assert isinstance(frame, bytes)
        is_passed_on = any(message.session_json == document for message in gateways.decode(frame).data)
    session.data([1])
    witness.read_until(lambda: set(witness.samples) == set(session.samples([1])))
    witness.close()


def test_pings_without_end_do_not_fill_memory(session: HandmadeSession, gateway: Gateway) -> None:
    """A viewer that asks whether the gateway is there and never reads the answers: what waits for it is bounded."""
    with mute_viewer(gateway, receive_bytes=4096) as mute:
        wait_until(lambda: "rta_gateway_viewers 1.0" in gateway.metrics(), what="the viewer")
        before = resident_bytes(gateway)
        for _ in range(60):
            mute.sendall(masked(9, b"x" * 125) * 5000)
        assert resident_bytes(gateway) - before < PINGS_MAX_BYTES
        witness = PythonViewer(gateway, "s")
        witness.subscribe(1)
        witness.read_until(lambda: set(witness.samples) == set(session.samples([1])))
        witness.close()


def test_half_a_frame_holds_nothing_up(session: HandmadeSession, gateway: Gateway) -> None:
    """A viewer that never ends its message is served like any other, and leaves nothing behind."""
    viewer = PythonViewer(gateway, "s")
    viewer.read()
    raw_socket(viewer).sendall(masked(2, b"x" * 10, size=500_000))
    session.time_range(1, 2)
    viewer.read_until(lambda: viewer.time_ranges == [(1, 2)])
    raw_socket(viewer).shutdown(socket.SHUT_RDWR)
    wait_until(lambda: "rta_gateway_viewers 0.0" in gateway.metrics(), what="the viewer to be gone")


def test_ten_thousand_subscriptions(session: HandmadeSession, gateway: Gateway) -> None:
    """One by one they add up to one wish; another viewer's bursts come in between."""
    before = resident_bytes(gateway)
    witness, viewer = PythonViewer(gateway, "s"), PythonViewer(gateway, "s")
    witness.subscribe(1)
    viewer.read()
    requests = []
    for channel in range(1, 10_001):
        request = stream_pb2.StreamRequest()
        request.subscribe.data_channel_ids.append(channel)
        requests.append(masked(2, request.SerializeToString()))
    raw_socket(viewer).sendall(b"".join(requests))
    session.data([1, 9_999])
    witness.read_until(lambda: set(witness.samples) == set(session.samples([1])))
    viewer.read_until(lambda: set(viewer.samples) == set(session.samples([1, 2, 9_999])))
    assert resident_bytes(gateway) - before < MEMORY_MAX_BYTES
    for each in (witness, viewer):
        each.close()


def test_a_viewer_that_takes_nothing_is_let_go(session: HandmadeSession, url: str) -> None:
    """After `stuck_s`, as one that answers no ping; a viewer that waits quietly for a quiet session is not."""
    environment = {"RTA_GATEWAY__STUCK_S": "2", "RTA_GATEWAY__QUEUE_BYTES": "65536"}
    with gateways.running(url, environment) as gateway:
        stuck = PythonViewer(gateway, "s", max_queue=1)
        quiet = PythonViewer(gateway, "s")
        quiet.read()
        mute = mute_viewer(gateway)
        stuck.subscribe(everything=True)
        stuck.read()
        message = stream_pb2.StreamData()
        message.timestamped_data.channel_id = 1
        message.timestamped_data.buffer = os.urandom(200_000)
        for _ in range(60):
            session.add(message)
        wait_until(lambda: gateway.events("gateway_viewer_stuck"), what="the viewer to be let go")
        assert 'rta_gateway_viewers_left_total{reason="stuck"} 1.0' in gateway.metrics()
        wait_until(lambda: 'left_total{reason="silent"} 1.0' in gateway.metrics(), what="the mute one to be let go")
        assert mute.recv(1 << 16).count(PING) >= 2, "it was asked before"
        mute.close()
        session.time_range(1, 2)
        quiet.read_until(lambda: quiet.time_ranges == [(1, 2)])
        quiet.close()


def test_what_waits_for_all_viewers_is_bounded(session: HandmadeSession, url: str) -> None:
    """`queued_bytes` is divided among viewers that read nothing, whatever each may have by itself."""
    environment = {"RTA_GATEWAY__QUEUE_BYTES": "8000000", "RTA_GATEWAY__QUEUED_BYTES": "300000"}
    with gateways.running(url, environment) as gateway:
        stuck = [mute_viewer(gateway) for _ in range(3)]
        for each in stuck:
            each.sendall(masked(2, b"\x12\x02\x10\x01"))
        wait_until(lambda: gateway.metrics().count("\nrta_gateway_viewers 3.0"), what="three viewers")
        message = stream_pb2.StreamData()
        message.timestamped_data.channel_id = 1
        message.timestamped_data.buffer = os.urandom(100_000)
        for _ in range(150):
            session.add(message)
        wait_until(lambda: "rta_gateway_viewers_behind 3.0" in gateway.metrics(), what="viewers that are behind")
        # Sockets that grow may take what waits: there is more, which the viewers read from Redis then.
        wait_until(lambda: _queued_bytes(gateway) > 0, what="bytes that wait")
        # Each queue is passed by at most the group of bursts that filled it.
        assert _queued_bytes(gateway) <= 300_000 + 3 * 400_000
        for each in stuck:
            each.close()
