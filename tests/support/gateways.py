"""A gateway as a process, sessions written by hand as any producer may write them, and a viewer in Python."""

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import lz4.block
import msgspec
import redis
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from rta_supervisor.embedded.processes import ReadySocket
from rta_wire.pb import stream_pb2
from tests.support import fork_server
from tests.support.waiting import wait_until

SUBPROTOCOL = "mat.ocs.rta.stream-lz4"
QUICK = {"RTA_GATEWAY__PORT": "0", "RTA_LOG__FORMAT": "json", "RTA_LOG__LEVEL": "debug"}
TTL_S = 600
BURST_MAX_BYTES = 1 << 20
HELD_UP_S = 1.8

Sample = tuple[int, int, bytes]
"""Channel, time in ns, and the bytes of one value."""


class Gateway:
    """One running gateway and its log."""

    def __init__(self, url: str, environment: Mapping[str, str] | None = None, *arguments: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="rtas-test-"))
        own = {"NOTIFY_SOCKET": str(self.directory / "ready"), "XDG_STATE_HOME": str(self.directory)}
        self.log_path = self.directory / "log"
        with ReadySocket(self.directory / "ready") as ready, self.log_path.open("wb") as log:
            env = {**os.environ, **QUICK, **own, **(environment or {})}
            self.process = fork_server.Fork("rta_supervisor", ["gateway", "--redis-url", url, *arguments], env, log)
            assert ready.wait(cast("subprocess.Popen[bytes]", self.process)), self.log_path.read_text()
        self.address = str(wait_until(lambda: self.events("gateway_started"), what="the start")[0]["address"])

    @property
    def port(self) -> int:
        port = urlsplit(self.address).port
        assert port is not None
        return port

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = self.log_path.read_bytes().splitlines()
        return [event for line in lines if (event := msgspec.json.decode(line))["event"] == name]

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of a response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=dict(headers or {}))
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()

    def metrics(self) -> str:
        return self.get("/metrics")[2].decode()

    def stream_url(self, identity: str) -> str:
        return f"ws://127.0.0.1:{self.port}/rta/v2/sessions/{quote(identity, safe='')}/stream"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextlib.contextmanager
def running(url: str, environment: Mapping[str, str] | None = None, *arguments: str) -> Iterator[Gateway]:
    gateway = Gateway(url, environment, *arguments)
    try:
        yield gateway
        faults = gateway.events("gateway_crashed") + gateway.events("gateway_viewer_failed")
        assert faults == [], gateway.log_path.read_text()
    finally:
        gateway.process.kill()
        shutil.rmtree(gateway.directory, ignore_errors=True)


@contextlib.contextmanager
def held_up(gateway: Gateway, for_s: float = HELD_UP_S) -> Iterator[None]:
    """Stops the process of a gateway, for longer than a read of a stream may take where nothing else is said."""
    until_s = time.monotonic() + for_s
    gateway.process.send_signal(signal.SIGSTOP)
    try:
        yield
        wait_until(lambda: time.monotonic() > until_s, what="the end of the pause")
    finally:
        gateway.process.send_signal(signal.SIGCONT)


class HandmadeSession:
    """A session that is written command by command, as the protocol has it, without any of our code for that."""

    def __init__(self, client: redis.Redis, identity: str, stream: str, number: int) -> None:
        self.client = client
        self.identity = identity
        self.stream = stream
        self.number = number
        self.time_ns = 1_700_000_000_000_000_000
        self.hash = f"sessions:{identity}"
        self.next_id_ms: int | None = None
        """Where set, entries are added as if at this time, and each a millisecond later."""

    def open(self, **properties: Any) -> None:
        info = (
            self.client.xinfo_stream(f"stream:{self.stream}") if self.client.exists(f"stream:{self.stream}") else None
        )
        position = info["last-generated-id"] if info else "0-0"
        self.client.sadd("streams", self.stream)
        self.client.hset(
            self.hash, mapping={"streamSessionId": self.number, "streamName": self.stream, "streamPosition": position}
        )
        self.client.expire(self.hash, TTL_S)
        self.publish_json("open", **properties)

    def publish_json(self, state: str, **properties: Any) -> None:
        document = msgspec.json.encode(
            {"identity": self.identity, "state": state, "timestamp": "2026-01-01T00:00:00Z", "identifier": "x"}
            | properties
        ).decode()
        self.client.hset(self.hash, mapping={"json": document, "lastUpdated": int(time.time() * 1000)})
        self.add(stream_pb2.StreamData(session_json=document))

    def close(self) -> None:
        self.publish_json("closed")

    def time_range(self, start_ns: int, end_ns: int) -> None:
        self.client.hset(self.hash, mapping={"tStart": start_ns, "tEnd": end_ns})
        self.add(stream_pb2.StreamData(time_range=stream_pb2.StreamTimeRange(start_time=start_ns, end_time=end_ns)))

    def data(self, channels: Sequence[int], samples: int = 4) -> None:
        """One burst with samples of each channel."""
        self.add(*self.messages(channels, samples))

    def messages(self, channels: Sequence[int], samples: int = 4) -> list[stream_pb2.StreamData]:
        self.time_ns += 1_000_000
        made = []
        for channel in channels:
            message = stream_pb2.StreamData()
            data = message.timestamped_data
            data.channel_id = channel
            data.start_timestamp = self.time_ns
            data.timestamp_deltas_scale = 1000
            data.timestamp_deltas.extend([0, *[1] * (samples - 1)])
            data.buffer = b"".join((channel * 1000 + index).to_bytes(8, "little") for index in range(samples))
            made.append(message)
        return made

    def add(self, *messages: stream_pb2.StreamData, framing: str = "raw") -> str:
        raw = stream_pb2.StreamDataBurst(data=messages).SerializeToString()
        block = lz4.block.compress(raw, store_size=framing == "size-prefixed")
        given = "*"
        if self.next_id_ms is not None:
            given, self.next_id_ms = f"{self.next_id_ms}-0", self.next_id_ms + 1
        entry_id: Any = self.client.xadd(f"stream:{self.stream}", {"id": str(self.number), "data": block}, id=given)
        return _text(entry_id)

    def samples(self, channels: Sequence[int] | None = None) -> Counter[Sample]:
        """All samples that are in the stream, as a plain reader of Redis sees them."""
        found: Counter[Sample] = Counter()
        entries: Any = self.client.xrange(f"stream:{self.stream}")
        for _, fields in entries:
            named = {_text(name): value for name, value in fields.items()}
            if int(named["id"]) == self.number:
                found.update(samples_of(decode(named["data"], is_prefixed=None), channels))
        return found


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def decode(block: bytes, *, is_prefixed: bool | None = False) -> stream_pb2.StreamDataBurst:
    """The burst in a raw LZ4 block; `is_prefixed` None: or behind a size."""
    try:
        raw = lz4.block.decompress(block, uncompressed_size=BURST_MAX_BYTES)
    except lz4.block.LZ4BlockError:
        if is_prefixed is False:
            raise
        raw = lz4.block.decompress(block)
    return stream_pb2.StreamDataBurst.FromString(raw)


def samples_of(burst: stream_pb2.StreamDataBurst, channels: Sequence[int] | None = None) -> Counter[Sample]:
    found: Counter[Sample] = Counter()
    for message in burst.data:
        kind = message.WhichOneof("data")
        if kind == "timestamped_data":
            data = message.timestamped_data
            if channels is not None and data.channel_id not in channels:
                continue
            width = len(data.buffer) // len(data.timestamp_deltas)
            at_ns = data.start_timestamp
            for index, delta in enumerate(data.timestamp_deltas):
                at_ns += delta * data.timestamp_deltas_scale
                found[data.channel_id, at_ns, data.buffer[index * width : (index + 1) * width]] += 1
    return found


class PythonViewer:
    """A viewer with the library `websockets`: everything that it got, in order."""

    def __init__(self, gateway: Gateway, identity: str, **options: Any) -> None:
        options = {"subprotocols": [Subprotocol(SUBPROTOCOL)], "compression": None, "max_size": 1 << 24} | options
        self._stack = contextlib.ExitStack()
        self.socket: ClientConnection = self._stack.enter_context(connect(gateway.stream_url(identity), **options))
        self.bursts: list[stream_pb2.StreamDataBurst] = []
        self.samples: Counter[Sample] = Counter()
        self.events: list[Any] = []
        self.documents: list[dict[str, Any]] = []
        self.time_ranges: list[tuple[int, int]] = []
        self.close_code: int | None = None

    def subscribe(self, *channels: int, everything: bool = False, events: bool = False) -> None:
        request = stream_pb2.StreamRequest()
        request.subscribe.all_data_channels = everything
        request.subscribe.all_events = events or everything
        request.subscribe.data_channel_ids.extend(channels)
        self.socket.send(request.SerializeToString())

    def read(self, timeout_s: float = 5.0) -> stream_pb2.StreamDataBurst | None:
        """The next burst; None at the close or where none comes."""
        try:
            frame = self.socket.recv(timeout=timeout_s)
        except TimeoutError:
            return None
        except ConnectionClosed as closed:
            self.close_code = 1006 if closed.rcvd is None else closed.rcvd.code
            return None
        assert isinstance(frame, bytes)
        burst = decode(frame)
        self.bursts.append(burst)
        self.samples.update(samples_of(burst))
        for message in burst.data:
            kind = message.WhichOneof("data")
            if kind == "session_json":
                self.documents.append(msgspec.json.decode(message.session_json))
            elif kind == "time_range":
                self.time_ranges.append((message.time_range.start_time, message.time_range.end_time))
            elif kind == "event":
                self.events.append(message.event)
        return burst

    def read_until(self, condition: Any, timeout_s: float = 10.0) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, "the condition did not come true"
            burst = self.read(left_s)
            assert burst is not None or self.close_code is None or condition(), f"closed: {self.close_code}"

    def read_to_close(self, timeout_s: float = 10.0) -> int | None:
        while self.read(timeout_s) is not None:
            pass
        return self.close_code

    def close(self) -> None:
        self._stack.close()
