"""A master, its replica and three Sentinels, all real, with a proxy in between that can cut off replication alone."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from rta_supervisor.embedded import process_guard, server
from tests.support.waiting import wait_until

MASTER = "main"
DOWN_AFTER_MS = 500


class ReplicationCut:
    """Forwards to a server. Once it is told to, bytes of replication vanish in it, and all others go on.

    Freezing a replica would lose nothing: what the master has sent waits in its socket.
    """

    def __init__(self, port: int) -> None:
        self._far_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_cut = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        self._is_cut.set()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._far_port))
            except OSError:
                near.close()
                continue
            is_replica = threading.Event()
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(*ends, is_replica, near), daemon=True).start()

    def _forward(
        self, source: socket.socket, sink: socket.socket, is_replica: threading.Event, near: socket.socket
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if source is near and b"PSYNC" in data:
                    is_replica.set()
                if not (is_replica.is_set() and self._is_cut.is_set()):
                    sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Watched:
    """What Sentinels watch over."""

    def __init__(
        self, master: server.EmbeddedServer, replica: server.EmbeddedServer, between: ReplicationCut, ports: list[int]
    ) -> None:
        self.master = master
        self.replica = replica
        self.between = between
        self.url = "redis+sentinel://" + ",".join(f"127.0.0.1:{port}" for port in ports) + f"/{MASTER}/0"

    def replica_role(self) -> str:
        with redis.Redis(port=int(self.replica.port or 0)) as client:
            info: Any = client.info("replication")
            return str(info["role"])


@contextlib.contextmanager
def running() -> Iterator[Watched]:
    """All of it for the length of a block."""
    with server.running(port=server.free_port()) as master, watching(master) as watched:
        yield watched


@contextlib.contextmanager
def watching(master: server.EmbeddedServer) -> Iterator[Watched]:
    """A replica of a server that runs on a port, and Sentinels that watch over both."""
    with contextlib.ExitStack() as stack:
        between = ReplicationCut(int(master.port or 0))
        stack.callback(between.close)
        replica = stack.enter_context(
            server.running(port=server.free_port(), options={"replicaof": f"127.0.0.1 {between.port}"})
        )
        ports = [stack.enter_context(_sentinel(between.port)) for _ in range(3)]
        wait_until(lambda: all(_is_ready(port) for port in ports), timeout_s=60, what="three Sentinels")
        yield Watched(master, replica, between, ports)


def _is_ready(port: int) -> bool:
    with redis.Redis(port=port) as client:
        state: Any = client.execute_command("SENTINEL MASTER", MASTER)
        if isinstance(state, list):
            state = {name.decode(): value.decode() for name, value in zip(state[::2], state[1::2], strict=True)}
        return int(state["num-slaves"]) == 1 and int(state["num-other-sentinels"]) == 2


@contextlib.contextmanager
def _sentinel(master_port: int) -> Iterator[int]:
    directory = Path(tempfile.mkdtemp(prefix="rtas-sentinel-"))
    port = server.free_port()
    config = directory / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {directory}\nlogfile {directory}/log\n"
        f"sentinel monitor {MASTER} 127.0.0.1 {master_port} 2\n"
        f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}\nsentinel failover-timeout {MASTER} 5000\n"
    )
    process = subprocess.Popen(
        [str(server.binary()), str(config), "--sentinel"],
        preexec_fn=process_guard.die_with_parent(os.getpid()),  # noqa: PLW1509 - it only asks the kernel for a signal
    )
    try:
        wait_until(lambda: _listens(port), what="a Sentinel")
        yield port
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(directory)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
