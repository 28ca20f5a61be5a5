"""Two hundred viewers of one session while gateways, Redis and the supervisor are killed: each of those that stay, and
come back when they are cut off, has seen every sample that stands in the stream.

Some viewers never read, and some leave and come again at random moments.
"""

import asyncio
import contextlib
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import redis
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from rta_supervisor.embedded import server
from rta_wire.pb import stream_pb2
from tests.chaos.oracle import Verdict
from tests.chaos.result import Result
from tests.support import gateways, supervisors
from tests.support.gateways import Gateway, HandmadeSession
from tests.support.waiting import wait_until

VIEWERS: Final = 200
STUCK: Final = 20
LEAVING: Final = 20
BURSTS: Final = 1500
EVERY_S: Final = 0.01
LAST_VALUES: Final = 1
"""Samples that a subscription is sent before its back-fill has them again: the last one of each channel."""

SETTLED_S: Final = 90.0
KEEPS: Final = {"appendonly": "yes", "appendfsync": "always"}
ROOM: Final = {"RTA_GATEWAY__ADDRESS_VIEWERS": "500", "RTA_GATEWAY__BACKFILL_S": "86400"}
RETRIED: Final = (OSError, WebSocketException, InvalidHandshake, InvalidStatus, asyncio.TimeoutError)


class Watcher:
    """A viewer that comes back whenever it is cut off, until its session has ended."""

    def __init__(self, url: str, *, leaves: Callable[[], bool]) -> None:
        self.seen: Counter[int] = Counter()
        self.again = 0
        """Samples that came more than once over one connection, but for the last value when it subscribed."""
        self.joined = 0
        self.is_done = False
        self._connection: Counter[int] = Counter()
        self._url = url
        self._leaves = leaves

    async def run(self) -> None:
        request = stream_pb2.StreamRequest()
        request.subscribe.all_data_channels = True
        while not self.is_done:
            with contextlib.suppress(*RETRIED):
                protocols = [Subprotocol(gateways.SUBPROTOCOL)]
                async with connect(self._url, subprotocols=protocols, compression=None, open_timeout=20) as viewer:
                    self.joined += 1
                    self._connection = Counter()
                    await viewer.send(request.SerializeToString())
                    async for frame in viewer:
                        assert isinstance(frame, bytes)
                        self._take(gateways.decode(frame))
                        if self._leaves() and not self.is_done:
                            break
            self.again += max(self._connection.total() - len(self._connection) - LAST_VALUES, 0)
            self._connection = Counter()
            await asyncio.sleep(0.2)

    def _take(self, burst: stream_pb2.StreamDataBurst) -> None:
        for message in burst.data:
            if message.WhichOneof("data") == "timestamped_data":
                self.seen[message.timestamped_data.start_timestamp] += 1
                self._connection[message.timestamped_data.start_timestamp] += 1
            elif '"state":"closed"' in message.session_json:
                self.is_done = True


def run(seed: str, advance: Callable[[], None], *, viewers: int = VIEWERS, bursts: int = BURSTS) -> Result:
    """One session under faults. `advance` is called after each fault."""
    chance = random.Random(seed)  # noqa: S311 - a run has to be repeatable
    result = Result()
    port = server.free_port()
    with server.running(port=server.free_port(), options=KEEPS) as own, supervisors.running(own.url) as supervisor:
        pair = [Gateway(own.url, ROOM | {"RTA_GATEWAY__PORT": str(port)}), Gateway(own.url, ROOM)]
        try:
            with redis.Redis.from_url(own.url) as client:
                session = HandmadeSession(client, "chaos", "chaos", 1_000_000)
                session.open()
            watchers = [
                Watcher(
                    pair[number % 2].stream_url("chaos"),
                    leaves=(lambda: chance.random() < 0.002) if number < LEAVING else (lambda: False),
                )
                for number in range(viewers - STUCK)
            ]
            stuck = [_stuck_viewer(pair[1]) for _ in range(STUCK)]
            crowd = threading.Thread(target=asyncio.run, args=(_watch_all(watchers),))
            crowd.start()
            wait_until(lambda: all(watcher.joined for watcher in watchers), timeout_s=60, what="all viewers")
            writing = threading.Thread(target=_write, args=(own.url, bursts))
            writing.start()
            for kind in ("redis", "gateway", "supervisor", "gateway", "redis"):
                time.sleep(bursts * EVERY_S / 6)
                if kind == "redis":
                    own.kill()
                    own.start()
                elif kind == "supervisor":
                    supervisor.process.kill()
                else:
                    pair[0].kill()
                    pair[0] = Gateway(own.url, ROOM | {"RTA_GATEWAY__PORT": str(port)})
                result.counts[f"{kind} killed"] += 1
                advance()
            writing.join()
            with redis.Redis.from_url(own.url) as client:
                session.client = client
                session.close()
                standing = {at_ns for _, at_ns, _ in session.samples()}
            wait_until(lambda: not crowd.is_alive(), timeout_s=SETTLED_S, what="all viewers to be at the end")
            for each in stuck:
                each.close()
        finally:
            for gateway in pair:
                gateway.kill()
    result.counts["viewers that never read"] = STUCK
    result.counts["viewers that came back"] = sum(watcher.joined - 1 for watcher in watchers)
    missing = sum(len(standing - set(watcher.seen)) for watcher in watchers)
    unknown = sum(len(set(watcher.seen) - standing) for watcher in watchers)
    again = sum(watcher.again for watcher in watchers)
    result.verdict = Verdict(samples=len(standing) * len(watchers), lost=missing, duplicated=again, mangled=unknown)
    result.ended["closed"] += 1
    return result


async def _watch_all(watchers: list[Watcher]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for watcher in watchers:
            tasks.create_task(watcher.run())


def _stuck_viewer(gateway: Gateway) -> socket.socket:
    """A viewer that wants everything and reads nothing."""
    viewer = socket.create_connection(("127.0.0.1", gateway.port))
    viewer.sendall(
        b"GET /rta/v2/sessions/chaos/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Protocol: mat.ocs.rta.stream-lz4\r\n\r\n"
    )
    viewer.sendall(b"\x82\x84\x00\x00\x00\x00\x12\x02\x10\x01")
    return viewer


def _write(url: str, bursts: int) -> None:
    """Add bursts at a steady pace; one whose reply was lost with Redis is left out or there, which the stream tells."""
    with redis.Redis.from_url(url) as client:
        session = HandmadeSession(client, "chaos", "chaos", 1_000_000)
        for _ in range(bursts):
            messages = session.messages([1], samples=1)
            with contextlib.suppress(redis.exceptions.RedisError):
                session.add(*messages)
            time.sleep(EVERY_S)
