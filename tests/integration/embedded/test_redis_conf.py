"""conf/redis.conf: real servers take it, each line has a reason, and its bounds have room for all that we send."""

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from rta_supervisor.embedded import server
from rta_wire import limits
from rta_writers.connection import redis_client
from tests.support import commands, supervisors
from tests.support.waiting import wait_until

CONF = Path(__file__).parents[3] / "conf/redis.conf"
LINES = CONF.read_text().splitlines()
OPTIONS = dict(line.split(" ", 1) for line in LINES if line and not line.startswith("#"))


@pytest.fixture(scope="module")
def configured() -> Iterator[server.EmbeddedServer]:
    with server.running(options={"include": str(CONF)}) as running:
        yield running


def in_bytes(text: str) -> str:
    """Sizes as CONFIG GET gives them."""
    factor = {"mb": 1 << 20, "gb": 1 << 30}.get(text[-2:])
    return str(int(text[:-2]) * factor) if factor else text.strip('"')


def test_each_line_has_a_reason() -> None:
    """A comment stands above each setting."""
    for before, line in itertools.pairwise(LINES):
        assert not line or line.startswith("#") or before.startswith("# "), line


def test_the_embedded_server_takes_every_line(configured: server.EmbeddedServer) -> None:
    """CONFIG GET gives what the file says."""
    with redis_client.connect(configured.url) as client:
        for name, text in OPTIONS.items():
            value = client.config_get(name)[name]
            if name == "client-output-buffer-limit":
                assert f"{1 << 30} {512 << 20} 60" in value
            else:
                assert value == in_bytes(text), name


@pytest.mark.skipif(not shutil.which("redis-server"), reason="there is no redis-server on the PATH")
def test_the_redis_of_the_host_takes_it(tmp_path: Path) -> None:
    """The oldest version that is supported knows all names: Debian's is 7.0."""
    socket_path = tmp_path / "redis.sock"
    own_file = tmp_path / "redis.conf"
    own_file.write_text(f"port 0\ndir {tmp_path}\nunixsocket {socket_path}\ninclude {CONF}\n")
    with subprocess.Popen(["redis-server", own_file], stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: socket_path.exists() or process.poll() is not None, what="a server")
            assert process.poll() is None, process.communicate()[0]
        finally:
            process.terminate()


def test_the_doctor_finds_no_fault(configured: server.EmbeddedServer) -> None:
    """A supervisor runs against it, and every check is ok."""
    with supervisors.running(configured.url):
        report = commands.run(configured.url, "doctor")
    assert not re.findall(r"^(?!ok).+", report.out, re.MULTILINE), report.out


def test_the_largest_value_that_we_send_is_taken(configured: server.EmbeddedServer) -> None:
    """A cold batch of incompressible bursts is larger than any burst. What is larger still is refused."""
    with redis_client.connect(configured.url) as client:
        client.xadd("cold:rig", {"b": os.urandom(limits.COLD_STORED_MAX_BYTES)})
        with pytest.raises(redis.RedisError):
            client.xadd("cold:rig", {"b": bytes(limits.COLD_STORED_MAX_BYTES + 1)})
    # The server ends a connection that sent too much.
    with redis_client.connect(configured.url) as client:
        client.unlink("cold:rig")
