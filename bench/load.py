"""What the benchmarks of the supervisor stand on: a server, a daemon as a process, sessions and reports in bulk."""

import atexit
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import hiredis
import redis

from rta_supervisor.embedded import server
from rta_supervisor.embedded.processes import ReadySocket
from rta_supervisor.transport import commands
from rta_supervisor.transport import pipeline as transport_pipeline
from rta_wire import keys, session
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_writers.connection import redis_client
from rta_writers.control.client import SessionClient

NAMES = keys.Keys()
STREAM = "bench"
START_NS = 1_700_000_000_000_000_000
TTL_S = 7 * 24 * 3600
SEND_MAX_CALLS = 1000
POLL_S = 0.002
PATIENCE_S = 120
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def identity(number: int) -> str:
    return f"session-{number:06d}"


def document(name: str) -> str:
    return f'{{"identity":"{name}","state":"open","timestamp":"2026-01-01T00:00:00Z","identifier":"{name}"}}'


class Sender:
    """Sends commands that were packed before, at next to no cost for this process."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))

    def send(self, parts: Iterable[tuple[bytes, int]]) -> None:
        """Parts of packed commands, each with their number."""
        reader = hiredis.Reader()
        for raw, count in parts:
            self._socket.sendall(raw)
            left = count
            while left:
                reader.feed(self._socket.recv(1 << 20))
                while (answer := reader.gets()) is not False:
                    if isinstance(answer, hiredis.HiredisError):
                        raise answer
                    left -= 1


def packed(batch: Iterable[commands.Command]) -> list[tuple[bytes, int]]:
    """Commands in parts for a sender."""
    words = [transport_pipeline.pack(call) for call in batch]
    return [
        (b"".join(words[at : at + SEND_MAX_CALLS]), len(words[at : at + SEND_MAX_CALLS]))
        for at in range(0, len(words), SEND_MAX_CALLS)
    ]


def sessions(count: int) -> Iterator[commands.Command]:
    """Commands that make open sessions 1 to `count`, as if they had been opened a moment ago."""
    now_ms = time.time_ns() // 1_000_000
    for number in range(1, count + 1):
        name = identity(number)
        place = (keys.STREAM_SESSION_ID, number, keys.STREAM_NAME, STREAM)
        shown = (*place, keys.STREAM_POSITION, "0-0", keys.LAST_UPDATED, now_ms, keys.JSON, document(name))
        ours = (*place, "state", "open", "principal", "default", "version", 1, "openedMs", now_ms)
        for key, fields in ((NAMES.session(name), shown), (NAMES.session_state(name), ours)):
            yield ("HSET", key, *fields)
            yield ("EXPIRE", key, TTL_S)
        yield ("SET", NAMES.gate(STREAM, number), "open", "EX", TTL_S)
        yield ("ZADD", NAMES.session_index(), now_ms, name)
    yield ("SET", keys.LAST_STREAM_SESSION_ID, count)
    yield ("SADD", keys.STREAMS, STREAM)


def report(number: int, unit: str, step: int) -> bytes:
    """The report of a unit that has come so far."""
    totals = Totals(step, step * 100, step * 900, step * 500, START_NS, START_NS + step * 1_000_000)
    return messages.pack(
        control_pb2.Progress(identity=identity(number), stream_session_id=number, unit=unit, totals=totals.to_message())
    )


def report_call(raw: bytes, key: str = NAMES.reports(keys.DEFAULT_PRINCIPAL)) -> commands.Command:
    return ("XADD", key, "*", keys.CONTROL_FIELD, raw)


def open_p99_ms(names: Iterable[str], pause_s: float = 0.0) -> float:
    """How long the slowest of a hundred opens took, of sessions that are opened one after another."""
    client = SessionClient(rig().url)
    took_s = []
    for name in names:
        request = control_pb2.OpenSession(
            request_id=messages.new_request_id(),
            identity=name,
            stream=STREAM,
            session_json=session.dump(session.build(name)).decode(),
        )
        started_s = time.perf_counter()
        client.ask(request)
        took_s.append(time.perf_counter() - started_s)
        time.sleep(pause_s)
    return sorted(took_s)[int(len(took_s) * 0.99)] * 1000


def process_cpu_s(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


class Rig:
    """One server for all benchmarks, and a daemon at a time."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="rtas-bench-"))
        self.server = server.EmbeddedServer()
        self.server.start()
        self.url = self.server.url
        self.client: redis.Redis = redis_client.connect(self.url)
        self.sender = Sender(self.server.socket_path)
        self.daemon: subprocess.Popen[bytes] | None = None
        self._set_up: object = None

    def close(self) -> None:
        self.stop()
        self.server.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def only(self, what: object, set_up: Callable[[], None]) -> None:
        """Make what a benchmark needs unless it stands there since the last round."""
        if self._set_up != what:
            self._set_up = None
            self.stop()
            self.client.flushall()
            for path in self.directory.glob("catalogue*"):
                path.unlink()
            set_up()
            self._set_up = what

    def start(self, **environment: str) -> float:
        """Start the daemon. Gives the seconds until it was ready."""
        path = self.directory / "ready"
        path.unlink(missing_ok=True)
        started_s = time.perf_counter()
        quiet = {
            "RTA_LOG__LEVEL": "error",
            "RTA_CATALOGUE__PATH": str(self.directory / "catalogue.sqlite"),
            "RTA_HTTP__PORT": "0",
        }
        with ReadySocket(path) as ready, (self.directory / "log").open("wb") as log:
            self.daemon = subprocess.Popen(
                [sys.executable, "-m", "rta_supervisor", "run", "--redis-url", self.url],
                env={**os.environ, **quiet, **environment, "NOTIFY_SOCKET": str(path)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            if not ready.wait(self.daemon):
                raise RuntimeError(f"the daemon did not start: {(self.directory / 'log').read_text()[-1000:]}")
        return time.perf_counter() - started_s

    def stop(self) -> None:
        if self.daemon is not None:
            self.daemon.send_signal(signal.SIGCONT)
            self.daemon.terminate()
            self.daemon.wait()
            self.daemon = None
        self._set_up = None

    def pause(self) -> None:
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGCONT)

    def cpu_s(self) -> float:
        """Processor time that the daemon has used."""
        assert self.daemon is not None
        return process_cpu_s(self.daemon.pid)

    def resident_bytes(self) -> int:
        """Memory of the daemon that it shares with nobody."""
        assert self.daemon is not None
        lines = Path(f"/proc/{self.daemon.pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))

    def wait_until_empty(self, key: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while self.client.xlen(key):
            if time.monotonic() > deadline_s or (self.daemon is not None and self.daemon.poll() is not None):
                raise RuntimeError(f"{key} is not empty: the daemon does not keep up or has ended")
            time.sleep(POLL_S)

    def own_bytes(self) -> int:
        """Memory of all keys of ours."""
        names: Sequence[Any] = list(self.client.scan_iter(match=f"{NAMES.prefix}*", count=1000))
        with self.client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.memory_usage(name, samples=0)
            return sum(size or 0 for size in pipe.execute())


@functools.cache
def rig() -> Rig:
    made = Rig()
    atexit.register(made.close)
    return made
