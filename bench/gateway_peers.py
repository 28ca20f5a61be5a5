"""What the benchmarks of the gateway talk to: gateways and bare servers as processes, and sockets that drain them."""

import asyncio
import base64
import contextlib
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import lz4.block
import msgspec

from rta_wire.pb import stream_pb2

SUBPROTOCOL: Final = "mat.ocs.rta.stream-lz4"
TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
RECEIVE_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 60.0
LOWEST: Final = 19
"""The niceness of what makes load and is not measured."""


class Server:
    """A process that listens on a port of its own."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rtas-bench-")
        self._log = Path(self._folder.name) / "log"
        own = {"XDG_STATE_HOME": self._folder.name, "RTA_LOG__FORMAT": "json"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **own, **environment})
        deadline_s = time.monotonic() + TIMEOUT_S
        while (port := self._find_port()) is None:
            assert time.monotonic() < deadline_s, self._log.read_text()
            time.sleep(0.05)
        self.port = port

    def cpu_s(self) -> float:
        """Processor time that the process has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_S

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * PAGE_BYTES

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as response:
            lines = response.read().decode().splitlines()
        return next(float(line.partition(" ")[2]) for line in lines if line.startswith(f"{name} "))

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(TIMEOUT_S)
        self._folder.cleanup()

    def _find_port(self) -> int | None:
        for line in self._log.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                event = msgspec.json.decode(line)
                if "address" in event:
                    return int(event["address"].rpartition(":")[2])
        return None


@contextlib.contextmanager
def gateway(url: str, **settings: object) -> Iterator[Server]:
    """A gateway on a port of its own; `settings` are those of section `[gateway]`."""
    limits = {"viewers": 5000, "token_viewers": 5000, "address_viewers": 5000, "port": 0} | settings
    environment = {f"RTA_GATEWAY__{name.upper()}": str(value) for name, value in limits.items()}
    server = Server([sys.executable, "-m", "rta_supervisor", "gateway", "--redis-url", url], environment)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def supervisor(url: str) -> Iterator[Server]:
    """A supervisor whose pages are on a port of their own."""
    server = Server([sys.executable, "-m", "rta_supervisor", "run", "--redis-url", url], {"RTA_HTTP__PORT": "0"})
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def crowd(port: int, identity: str, viewers: int) -> Iterator[None]:
    """So many viewers of everything, in a process of their own, once all of them are there."""
    command = [sys.executable, "-m", "bench.gateway_peers", "crowd", str(port), identity, str(viewers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        try:
            yield
        finally:
            process.terminate()


@contextlib.contextmanager
def bare_server(frame_bytes: int) -> Iterator[Server]:
    """A server that writes ready frames to all transports for each line that a control connection sends."""
    server = Server([sys.executable, "-m", "bench.gateway_peers", str(frame_bytes)], {})
    try:
        yield server
    finally:
        server.stop()


def open_viewer(port: int, identity: str) -> socket.socket:
    """A WebSocket after its handshake."""
    viewer = socket.create_connection(("127.0.0.1", port))
    key = base64.b64encode(os.urandom(16)).decode()
    viewer.sendall(
        f"GET /rta/v2/sessions/{identity}/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n".encode()
    )
    head = b""
    while b"\r\n\r\n" not in head:
        # Byte by byte: what follows belongs to the frames.
        head += viewer.recv(1)
    assert head.startswith(b"HTTP/1.1 101"), head
    return viewer


def subscribe(viewer: socket.socket, *channels: int) -> None:
    """Ask for some channels, or for everything."""
    request = stream_pb2.StreamRequest()
    request.subscribe.all_data_channels = request.subscribe.all_events = not channels
    request.subscribe.data_channel_ids.extend(channels)
    raw = request.SerializeToString()
    viewer.sendall(bytes([0x82, 0x80 | len(raw)]) + bytes(4) + raw)


class Drain:
    """Reads all sockets in a thread, and counts bytes."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self.sockets = sockets
        self.received = 0
        self._is_stopped = False
        self._selector = selectors.DefaultSelector()
        for each in sockets:
            each.setblocking(False)
            self._selector.register(each, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for(self, received: int) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while self.received < received:
            assert time.monotonic() < deadline_s, f"{self.received} of {received} bytes came"
            time.sleep(0.002)

    def settle(self) -> int:
        """Wait until nothing more comes; what came so far."""
        before = -1
        while before != self.received:
            before = self.received
            time.sleep(0.3)
        return before

    def stop(self) -> None:
        self._is_stopped = True
        self._thread.join()
        for each in self.sockets:
            each.close()

    def _run(self) -> None:
        buffer = bytearray(RECEIVE_BYTES)
        while not self._is_stopped:
            for key, _ in self._selector.select(0.1):
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    self.received += key.fileobj.recv_into(buffer)  # type: ignore[union-attr]


def burst(channels: int, value_bytes: int, *, channel_from: int = 1) -> bytes:
    """A serialized burst with a message for each channel, whose samples do not compress."""
    made = stream_pb2.StreamDataBurst()
    for channel in range(channel_from, channel_from + channels):
        data = made.data.add().timestamped_data
        data.channel_id, data.start_timestamp, data.timestamp_deltas_scale = channel, time.time_ns(), 1000
        data.timestamp_deltas.extend([0, *[1] * (value_bytes // 8 - 1)])
        data.buffer = os.urandom(value_bytes)
    return made.SerializeToString()


def block(raw: bytes) -> bytes:
    compressed: bytes = lz4.block.compress(raw, store_size=False)
    return compressed


class _Bare(asyncio.Protocol):
    """Writes a ready frame to every transport for each byte `x` that any of them sends."""

    transports: list[asyncio.Transport] = []  # noqa: RUF012 - of the process
    frame = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transports.append(transport)

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(b"x")):
            for transport in self.transports:
                transport.write(self.frame)


async def _serve_bare(frame_bytes: int) -> None:
    _Bare.frame = os.urandom(frame_bytes)
    server = await asyncio.get_running_loop().create_server(_Bare, "127.0.0.1", 0)
    print(msgspec.json.encode({"address": f"127.0.0.1:{server.sockets[0].getsockname()[1]}"}).decode(), flush=True)
    await server.serve_forever()


def _watch(port: int, identity: str, viewers: int) -> None:
    """Be so many viewers until the process is ended. They stand for other machines: all else goes first."""
    os.nice(LOWEST)
    sockets = [open_viewer(port, identity) for _ in range(viewers)]
    for each in sockets:
        subscribe(each)
    Drain(sockets)
    print("here", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "crowd":
        _watch(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve_bare(int(sys.argv[1])))
