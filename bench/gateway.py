"""The gateway: bytes delivered for its processor time, frames that are cut out, and how soon viewers see data."""

import contextlib
import itertools
import os
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import lz4.block
import msgspec
import redis

from bench import gateway_peers as peers
from bench import measure
from rta_supervisor.embedded import server
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live.live_burst import LiveBurst
from rta_supervisor.gateway.live.wish import Wish
from rta_wire.pb import stream_pb2

VIEWERS: Final = 50
FRAME_BYTES: Final = 30_000
GROUP: Final = 10
"""Bursts between two looks at whether all viewers have them: what waits for them stays far below their queues."""

CHANNELS: Final = 100
WANTED: Final = 5
JOINED_ENTRIES: Final = 10_000
RATE_PER_S: Final = 200
KIB: Final = 1024

_numbers = itertools.count(1)


class Session:
    """A session with a stream of its own."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.number = next(_numbers)
        self.identity = f"bench-{self.number}"
        self.key = f"stream:{self.identity}"
        fields = {"identity": self.identity, "state": "open", "timestamp": "2026-01-01T00:00:00Z", "identifier": "x"}
        document = msgspec.json.encode(fields).decode()
        names: dict[Any, Any] = {"streamSessionId": self.number, "streamName": self.identity, "streamPosition": "0-0"}
        client.hset(f"sessions:{self.identity}", mapping={**names, "json": document})
        self.add(peers.block(stream_pb2.StreamDataBurst(data=[{"session_json": document}]).SerializeToString()), 1)

    def add(self, block: bytes, times: int) -> None:
        with self.client.pipeline(transaction=False) as pipe:
            for _ in range(times):
                pipe.xadd(self.key, {"id": str(self.number), "data": block})
            pipe.execute()


@contextlib.contextmanager
def running(**settings: object) -> Iterator[tuple[peers.Server, redis.Redis]]:
    """A Redis and a gateway."""
    with (
        server.running() as own,
        redis.Redis(unix_socket_path=str(own.socket_path)) as client,
        peers.gateway(own.url, **settings) as gateway,
    ):
        yield gateway, client


def frame_bytes(block: bytes) -> int:
    return len(block) + (4 if len(block) > 125 else 2)


def delivered(viewers: int, bursts: int) -> float:
    """Bytes that a gateway delivers to viewers of everything, for each second of its processor time."""
    block = peers.block(peers.burst(CHANNELS, FRAME_BYTES // CHANNELS // 8 * 8 - 64))
    with running() as (gateway, client):
        session = Session(client)
        sockets = [peers.open_viewer(gateway.port, session.identity) for _ in range(viewers)]
        for each in sockets:
            peers.subscribe(each)
        drain = peers.Drain(sockets)
        session.add(block, GROUP)
        before = drain.settle()
        began_s = gateway.cpu_s()
        for sent in range(0, bursts, GROUP):
            session.add(block, GROUP)
            drain.wait_for(before + viewers * (sent + GROUP) * frame_bytes(block))
        used_s = gateway.cpu_s() - began_s
        drain.stop()
    return viewers * bursts * frame_bytes(block) / max(used_s, peers.TICK_S)


def written_bare(viewers: int, bursts: int) -> float:
    """The same for transports that are written ready frames, without WebSockets and without Redis."""
    size = FRAME_BYTES
    with peers.bare_server(size) as bare:
        sockets = [socket.create_connection(("127.0.0.1", bare.port)) for _ in range(viewers)]
        drain = peers.Drain(sockets)
        sockets[0].sendall(b"x" * GROUP)
        before = drain.settle()
        began_s = bare.cpu_s()
        for sent in range(0, bursts, GROUP):
            # One by one, as bursts come.
            for _ in range(GROUP):
                sockets[0].send(b"x")
                time.sleep(0.0005)
            drain.wait_for(before + viewers * (sent + GROUP) * size)
        used_s = bare.cpu_s() - began_s
        drain.stop()
    return viewers * bursts * size / max(used_s, peers.TICK_S)


def bench_delivery(quick: bool) -> Iterator[measure.Case]:
    """Everything to everybody."""
    bursts = 20 if quick else 600
    yield measure.Case(
        f"gateway: {VIEWERS} viewers of all channels against bare transports",
        "bytes per CPU second",
        lambda: delivered(VIEWERS, bursts),
        lambda: written_bare(VIEWERS, bursts),
        0.45,
    )
    few, many = (10, 20) if quick else (10, 500)
    yield measure.Case(
        f"gateway: a byte to one of {many} viewers against one of {few}",
        "CPU s per GB",
        lambda: 1e9 / delivered(many, 20 if quick else 60),
        lambda: 1e9 / delivered(few, 20 if quick else 3000),
        1.3,
        at_most=True,
    )


def bench_cutting(quick: bool) -> Iterator[measure.Case]:
    """Some channels to everybody, others to each."""
    del quick
    data = peers.block(peers.burst(CHANNELS, 480))
    wanted = [frozenset((viewer + step * 17) % CHANNELS + 1 for step in range(WANTED)) for viewer in range(VIEWERS)]
    wishes = [Wish(False, False, channel_ids) for channel_ids in wanted]
    counts = GatewayCounts()

    def ours() -> None:
        burst = LiveBurst("1-0", data, counts)
        for wish in wishes:
            burst.frame_for(wish)

    def obvious() -> None:
        for channel_ids in wanted:
            burst = stream_pb2.StreamDataBurst.FromString(lz4.block.decompress(data, uncompressed_size=1 << 20))
            picked = [item for item in burst.data if item.timestamped_data.channel_id in channel_ids]
            lz4.block.compress(stream_pb2.StreamDataBurst(data=picked).SerializeToString(), store_size=False)

    yield measure.Case(
        f"gateway: frames of {WANTED} other channels of {CHANNELS} for each of {VIEWERS} viewers, against decoding",
        "frames/s",
        measure.per_cpu_second(VIEWERS, ours),
        measure.per_cpu_second(VIEWERS, obvious),
        5.0,
    )


def latency_ms(seconds: float) -> tuple[list[float], list[float]]:
    """From XADD to a viewer's frame, with 99 more that count only; and to a reader with XREAD BLOCK alone."""
    with running() as (gateway, client):
        session = Session(client)
        others = [peers.open_viewer(gateway.port, session.identity) for _ in range(99)]
        probe = peers.open_viewer(gateway.port, session.identity)
        for each in (*others, probe):
            peers.subscribe(each)
        drain = peers.Drain(others)
        drain.settle()
        times: dict[str, list[float]] = {"gateway": [], "bare": []}
        ended = threading.Event()
        readers = [
            threading.Thread(target=_probe, args=(probe, times["gateway"], ended)),
            threading.Thread(target=_bare_reader, args=(client, session.key, times["bare"], ended)),
        ]
        for reader in readers:
            reader.start()
        _write_paced(client, session, seconds)
        ended.set()
        for reader in readers:
            reader.join()
        drain.stop()
        probe.close()
    return times["gateway"], times["bare"]


STAMP: Final = b"\xaa\x55stamp"


def _write_paced(client: redis.Redis, session: Session, seconds: float) -> None:
    """Bursts of about 2 KB at a fixed rate, each with the time at which it was added."""
    due_s = time.perf_counter()
    for _ in range(int(seconds * RATE_PER_S)):
        due_s += 1 / RATE_PER_S
        time.sleep(max(due_s - time.perf_counter(), 0))
        burst = stream_pb2.StreamDataBurst()
        data = burst.data.add().timestamped_data
        data.channel_id = 1
        data.buffer = os.urandom(2000) + STAMP + time.perf_counter_ns().to_bytes(8, "little") + os.urandom(16)
        client.xadd(session.key, {"id": str(session.number), "data": peers.block(burst.SerializeToString())})


def _take_stamps(raw: bytes, times: list[float]) -> None:
    now_ns = time.perf_counter_ns()
    start = 0
    while (found := raw.find(STAMP, start)) >= 0 and found + len(STAMP) + 8 <= len(raw):
        start = found + len(STAMP)
        times.append((now_ns - int.from_bytes(raw[start : start + 8], "little")) / 1e6)


def _probe(viewer: socket.socket, times: list[float], ended: threading.Event) -> None:
    viewer.settimeout(0.5)
    while not ended.is_set():
        with contextlib.suppress(TimeoutError):
            _take_stamps(viewer.recv(1 << 16), times)


def _bare_reader(client: redis.Redis, key: str, times: list[float], ended: threading.Event) -> None:
    position: bytes | str = "$"
    while not ended.is_set():
        reply = client.execute_command("XREAD", "COUNT", 64, "BLOCK", 500, "STREAMS", key, position)
        for _, entries in reply.items() if isinstance(reply, dict) else reply or []:
            for entry_id, fields in entries:
                position = entry_id
                flat = fields.values() if isinstance(fields, dict) else fields
                _take_stamps(b"".join(value for value in flat if isinstance(value, bytes)), times)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def bench_latency(quick: bool) -> Iterator[measure.Case]:
    """How soon."""

    def more_ms() -> float:
        gateway, bare = latency_ms(0.5 if quick else 6.0)
        figures = [
            f"p{share} {percentile(gateway, share / 100):.2f} against {percentile(bare, share / 100):.2f} ms"
            for share in (50, 95, 99)
        ]
        print(f"gateway: XADD to a frame: {', '.join(figures)} ({len(gateway)} bursts)", file=sys.stderr)
        return max(percentile(gateway, 0.95) - percentile(bare, 0.95), 0.001)

    yield measure.Case(
        "gateway: XADD to the frame at one of 100 viewers, more than XREAD BLOCK alone at p95, of 10 ms",
        "ms",
        more_ms,
        measure.constant(10.0),
        1.0,
        at_most=True,
    )


def bench_joining(quick: bool) -> Iterator[measure.Case]:
    """How soon a viewer that joins has data."""
    entries = 200 if quick else JOINED_ENTRIES
    block = peers.block(peers.burst(10, 160))

    def joined_ms(*, is_followed: bool) -> float:
        with running() as (gateway, client):
            session = Session(client)
            session.add(block, entries)
            if is_followed:
                _first_data_ms(gateway, session)
            return statistics.median(_first_data_ms(gateway, session) for _ in range(1 if not is_followed else 5))

    cases: tuple[tuple[str, Callable[[], float], float], ...] = (
        ("where it is followed", lambda: joined_ms(is_followed=True), 150.0),
        ("as the first viewer", lambda: joined_ms(is_followed=False), 1000.0),
    )
    for name, work, bar_ms in cases:
        yield measure.Case(
            f"gateway: joining a stream of {entries} entries {name}, to the first data, of {bar_ms:g} ms",
            "ms",
            work,
            measure.constant(bar_ms),
            1.0,
            at_most=True,
        )


def _first_data_ms(gateway: peers.Server, session: Session) -> float:
    began_s = time.perf_counter()
    viewer = peers.open_viewer(gateway.port, session.identity)
    peers.subscribe(viewer)
    received = b""
    # The first frame is the Session JSON, which is short.
    while len(received) < 400:
        received += viewer.recv(1 << 16)
    passed_ms = (time.perf_counter() - began_s) * 1000
    viewer.close()
    return passed_ms


def bench_memory(quick: bool) -> Iterator[measure.Case]:
    """What a viewer costs."""
    idle, stuck = (20, 2) if quick else (400, 60)
    queue_bytes = 1024 * KIB

    def grown_bytes(viewers: int, *, is_stuck: bool) -> float:
        block = peers.block(peers.burst(CHANNELS, 480))
        with running(queue_bytes=queue_bytes) as (gateway, client):
            session = Session(client)
            witness = peers.open_viewer(gateway.port, session.identity)
            peers.subscribe(witness)
            drain = peers.Drain([witness])
            # What serves one viewer at all, and its newest bursts, is there before it is measured.
            for _ in range(20):
                session.add(block, GROUP)
                drain.settle()
            before = gateway.resident_bytes()
            sockets = [peers.open_viewer(gateway.port, session.identity) for _ in range(viewers)]
            if is_stuck:
                for each in sockets:
                    peers.subscribe(each)
                # Until the queues of all of them are full, and they are not written to any more.
                while gateway.metric("rta_gateway_viewers_behind") < viewers:
                    session.add(block, GROUP)
                    time.sleep(0.05)
            drain.settle()
            grown = gateway.resident_bytes() - before
            drain.stop()
            for each in sockets:
                each.close()
        return grown / viewers

    yield measure.Case(
        "gateway: memory of an idle viewer, of 200 KiB",
        "bytes",
        lambda: grown_bytes(idle, is_stuck=False),
        measure.constant(200 * KIB),
        1.0,
        at_most=True,
    )
    yield measure.Case(
        "gateway: memory of a stuck viewer, of its queue",
        "bytes",
        lambda: grown_bytes(stuck, is_stuck=True),
        measure.constant(queue_bytes),
        1.0,
        at_most=True,
    )
