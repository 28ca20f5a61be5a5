"""The embedded server: nothing needed, nothing left behind."""

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


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_dies_with_its_parent_and_leaves_nothing(how: signal.Signals) -> None:
    """Even at SIGKILL of the parent the server ends and its directory goes."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, directory = parent.stdout.readline().split()
        assert alive(int(pid))
        assert Path(directory).exists()
        parent.send_signal(how)
        parent.wait()
    wait_until(lambda: not alive(int(pid)), what="the end of the server")
    wait_until(lambda: not Path(directory).exists(), what="the end of its directory")


def test_the_server_dies_with_its_keeper() -> None:
    """Killing the process in between ends the server too: the kernel sees to it."""
    embedded = server.EmbeddedServer()
    embedded.start()
    assert embedded._keeper is not None
    embedded._keeper.kill()
    wait_until(lambda: not alive(embedded.pid), what="the end of the server")
    embedded.stop()
    assert not embedded.directory.exists()


def test_the_defaults_keep_data_safe_and_private() -> None:
    """No eviction, no TCP port unless asked, a socket for its owner alone."""
    with server.running() as embedded, redis_client.connect(embedded.url) as client:
        assert client.config_get("maxmemory-policy") == {b"maxmemory-policy": b"noeviction"} or client.config_get(
            "maxmemory-policy"
        ) == {"maxmemory-policy": "noeviction"}
        assert embedded.socket_path.stat().st_mode & 0o077 == 0
        assert client.info("server")["tcp_port"] == 0


def test_a_server_on_a_port_survives_a_crash_with_its_data() -> None:
    """`kill` is a crash; with an append-only file the next `start` has the data again."""
    options = {"appendonly": "yes", "appendfsync": "always"}
    with server.running(port=server.free_port(), options=options) as embedded:
        with redis_client.connect(embedded.url) as client:
            client.set("a", "1")
        embedded.kill()
        embedded.start()
        with redis_client.connect(embedded.url) as client:
            assert client.get("a") == b"1"


def test_a_port_in_use_is_named() -> None:
    """One sentence with the address, before anything is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        embedded = server.EmbeddedServer(port=port)
        with pytest.raises(errors.AddressInUse, match=f"127.0.0.1:{port}"):
            embedded.start()
        embedded.stop()


def test_a_server_that_can_not_start_says_why() -> None:
    """The end of its own log is in the error."""
    with pytest.raises(errors.Unavailable, match="did not start"), server.running(options={"maxmemory": "a lot"}):
        pass
