"""The embedded server: its defaults, crashes, errors, and that nothing of it outlives its parent."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rta_supervisor.embedded import server
from rta_wire import errors
from rta_writers.connection import redis_client
from tests.support.waiting import wait_until

PARENT = """
import sys
from rta_supervisor.embedded import server
embedded = server.EmbeddedServer()
embedded.start()
print(embedded.pid, embedded.directory, flush=True)
sys.stdin.read()
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_dies_with_its_parent_and_leaves_nothing(sig: signal.Signals) -> None:
    """Even at SIGKILL of the parent the server ends and its directory is removed."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, directory = parent.stdout.readline().split()
        assert is_running(int(pid))
        assert Path(directory).exists()
        parent.send_signal(sig)
        parent.wait()
    wait_until(lambda: not is_running(int(pid)), what="the end of the server")
    wait_until(lambda: not Path(directory).exists(), what="the removal of its directory")


def test_the_server_dies_with_its_guard() -> None:
    """SIGKILL of the process between parent and server: the kernel ends the server."""
    embedded = server.EmbeddedServer()
    embedded.start()
    assert embedded._guard is not None
    embedded._guard.kill()
    wait_until(lambda: not is_running(embedded.pid), what="the end of the server")
    embedded.stop()
    assert not embedded.directory.exists()


def test_the_defaults_keep_data_safe_and_private() -> None:
    """No eviction, no TCP port, and a unix socket that only its owner may use."""
    with server.running() as embedded, redis_client.connect(embedded.url) as client:
        assert client.info("memory")["maxmemory_policy"] == "noeviction"
        assert embedded.socket_path.stat().st_mode & 0o077 == 0
        assert client.info("server")["tcp_port"] == 0


def test_a_server_on_a_port_survives_a_crash_with_its_data() -> None:
    """After `kill`, which is a crash, `start` has the data again where the server has an append-only file."""
    options = {"appendonly": "yes", "appendfsync": "always"}
    with server.running(port=server.free_port(), options=options) as embedded:
        with redis_client.connect(embedded.url) as client:
            client.set("a", "1")
        embedded.kill()
        embedded.start()
        with redis_client.connect(embedded.url) as client:
            assert client.get("a") == b"1"


def test_a_port_in_use_is_refused() -> None:
    """The error names the address, and no server is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        embedded = server.EmbeddedServer(port=port)
        with pytest.raises(errors.AddressInUse, match=f"127.0.0.1:{port}"):
            embedded.start()
        embedded.stop()


@pytest.mark.parametrize(
    ("options", "log"),
    [({"maxmemory": "a lot"}, "no log was written"), ({"unixsocket": "/nonexistent/socket"}, "opening Unix socket")],
)
def test_a_server_that_does_not_start_gives_its_log(options: dict[str, str], log: str) -> None:
    """The error has the end of the server's log in it, if there is one."""
    with pytest.raises(errors.Unavailable, match=f"did not start: (?s:.*){log}"), server.running(options=options):
        pass
