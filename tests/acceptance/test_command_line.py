"""The command line as a process: sentences on standard error, documented exit codes, no tracebacks."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rta_supervisor.embedded import server
from rta_wire import __version__
from rta_writers.connection import redis_client

ANY_HTTP_PORT = {"RTA_HTTP__PORT": "0"}


def run(*arguments: str, environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rta_supervisor", *arguments],
        env={**os.environ, **ANY_HTTP_PORT, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def check_refused(completed: "subprocess.CompletedProcess[str]", code: int, pattern: str) -> None:
    """Checks the exit code, that standard error is short and matches the pattern, and that there is no traceback."""
    assert completed.returncode == code, completed.stderr
    assert re.search(pattern, completed.stderr), completed.stderr
    assert "Traceback" not in completed.stderr + completed.stdout
    assert len(completed.stderr.strip().splitlines()) <= 4


def test_help_teaches_by_example() -> None:
    """The help of the program and of its commands shows commands to type."""
    assert "rta-supervisor demo" in run("--help").stdout
    assert "--redis-url redis://" in run("demo", "--help").stdout
    assert "rta-supervisor run --config" in run("run", "--help").stdout
    assert __version__ in run("--version").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "pattern"),
    [
        (["runn"], 64, "No such command 'runn'"),
        (["run", "--nope"], 64, "--nope"),
        (["run", "--log-level", "loud"], 64, "loud"),
        (["demo", "--keep"], 64, "--keep needs --redis-url"),
        (["demo", "--port", "1", "--redis-url", "redis://x"], 64, "Use one of them"),
        (["run", "--config", "gone.toml"], 78, r"gone\.toml.*can't be read"),
        (["run", "--redis-url", "http://x"], 78, r"redis\.url"),
        (["demo", "--redis-url", "unix:///nonexistent/socket"], 69, "No Redis answers at unix:///nonexistent/socket"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments: list[str], code: int, pattern: str) -> None:
    """Exit codes: 64 for usage, 69 for what is unavailable, 78 for configuration."""
    check_refused(run(*arguments), code, pattern)


def test_a_port_in_use_is_refused() -> None:
    """`demo --port` with a port that is taken names the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        check_refused(run("demo", "--port", port), 69, f"127.0.0.1:{port} can't be listened on")


@pytest.fixture
def evicting_server() -> Iterator[server.EmbeddedServer]:
    with server.running(options={"maxmemory-policy": "allkeys-lru"}) as running:
        yield running


def test_an_evicting_server_is_refused(evicting_server: server.EmbeddedServer) -> None:
    """The sentence names the eviction policy of the server and the one to set."""
    check_refused(run("run", "--redis-url", evicting_server.url), 78, "allkeys-lru.*Set it to noeviction")


def test_a_full_server_is_refused(url: str) -> None:
    """The exit code is 69 and not 78: memory may become free again."""
    with redis_client.connect(url) as client:
        client.config_set("maxmemory", 1)
        try:
            check_refused(run("demo", "--redis-url", url), 69, "is full")
        finally:
            client.config_set("maxmemory", 0)


def test_a_read_only_replica_is_refused(shared_server: server.EmbeddedServer) -> None:
    """The sentence says to name the primary instead."""
    with server.running(options={"replicaof": "127.0.0.1 1"}) as replica:
        check_refused(run("run", "--redis-url", replica.url), 78, "replica. Name the primary")
    assert shared_server.pid


def test_a_password_never_shows() -> None:
    """A password in a URL on the command line is refused, and no error about a server shows its password."""
    url = "redis://me:hush@127.0.0.1:1/0"
    check_refused(run("run", "--redis-url", url), 64, r"can be read by everybody on this host \(redis://me:\*\*\*@127")
    completed = run("status", environment={"RTA_REDIS__URL": url})
    check_refused(completed, 69, r"redis://me:\*\*\*@127")
    assert "hush" not in completed.stderr + completed.stdout


def test_check_config_shows_what_is_in_effect(tmp_path: Path) -> None:
    """`check-config` prints every setting with its origin, and no secret."""
    path = tmp_path / "s.toml"
    path.write_text("[node]\nttl_s = 90\n")
    secrets = {"RTA_HTTP__TOKEN": "hush-hush", "RTA_REDIS__URL": "redis://me:geheim@h:1"}
    completed = run("check-config", "--config", str(path), "--json", environment=secrets)
    assert completed.returncode == 0, completed.stderr
    lines = json.loads(completed.stdout)["settings"]
    origins = {line["name"]: (line["value"], line["origin"]) for line in lines}
    assert origins["node.ttl_s"] == (90, f"{path}:2")
    assert origins["redis.url"] == ("redis://me:***@h:1", "RTA_REDIS__URL")
    assert origins["http.token"] == ("***", "RTA_HTTP__TOKEN")
    assert origins["node.renew_s"] == (5.0, "default")
    assert "hush" not in completed.stdout
    assert "geheim" not in completed.stdout
    table = run("check-config", "--config", str(path), "--redis-url", "redis://h:2").stdout
    assert re.search(rf"node\.ttl_s +90 +{path}:2", table)
    assert re.search(r"redis\.url +redis://h:2 +command line", table)


def test_check_config_names_every_mistake(tmp_path: Path) -> None:
    """`check-config` ends with 78 and prints one line for each mistake in the file."""
    path = tmp_path / "s.toml"
    path.write_text("[node]\nttl = 90\n[redis]\nurll = 5\n")
    completed = run("check-config", "--config", str(path))
    assert completed.returncode == 78
    assert completed.stderr.splitlines() == [
        f"rta-supervisor: {path}:2: node.ttl: there is no such setting. Did you mean node.ttl_s?",
        f"rta-supervisor: {path}:4: redis.urll: there is no such setting. Did you mean redis.url?",
    ]
    assert json.loads(run("check-config", "--config", str(path), "--json").stdout)["valid"] is False
