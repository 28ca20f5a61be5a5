"""The command line as a person meets it: clear sentences, exit codes that mean something, no tracebacks."""

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

ROOT = Path(__file__).parents[2]
QUICK = {"RTA_HTTP__PORT": "0"}


def run(*words: str, environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rta_supervisor", *words],
        env={**os.environ, **QUICK, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def check_refused(done: "subprocess.CompletedProcess[str]", code: int, words: str) -> None:
    """One sentence on standard error, the exit code, and no traceback."""
    assert done.returncode == code, done.stderr
    assert re.search(words, done.stderr), done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert len(done.stderr.strip().splitlines()) <= 4


def test_help_teaches_by_example() -> None:
    """Bare --help shows what to type, and so does each command."""
    assert "rta-supervisor demo" in run("--help").stdout
    assert "--redis-url redis://" in run("demo", "--help").stdout
    assert "rta-supervisor run --config" in run("run", "--help").stdout
    assert __version__ in run("--version").stdout


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
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
def test_mistakes_end_in_one_sentence(words: list[str], code: int, sentence: str) -> None:
    """Usage is 64, unavailable is 69, configuration is 78."""
    check_refused(run(*words), code, sentence)


def test_a_port_in_use_is_named() -> None:
    """The demo's embedded server says which address is taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        check_refused(run("demo", "--port", port), 69, f"127.0.0.1:{port} can't be listened on")


@pytest.fixture
def evicting() -> Iterator[server.EmbeddedServer]:
    with server.running(options={"maxmemory-policy": "allkeys-lru"}) as running:
        yield running


def test_an_evicting_server_is_refused(evicting: server.EmbeddedServer) -> None:
    """The sentence names the policy and the remedy."""
    check_refused(run("run", "--redis-url", evicting.url), 78, "allkeys-lru.*Set it to noeviction")


def test_a_full_server_is_refused(url: str) -> None:
    """Unavailable, not misconfigured: somebody may make room."""
    with redis_client.connect(url) as client:
        client.config_set("maxmemory", 1)
        try:
            check_refused(run("demo", "--redis-url", url), 69, "is full")
        finally:
            client.config_set("maxmemory", 0)


def test_a_read_only_replica_is_refused(shared_server: server.EmbeddedServer) -> None:
    """The sentence tells to name the primary."""
    with server.running(options={"replicaof": "127.0.0.1 1"}) as replica:
        check_refused(run("run", "--redis-url", replica.url), 78, "replica. Name the primary")
    assert shared_server.pid


def test_a_password_never_shows() -> None:
    """Not even in the error about the server that it belongs to."""
    url = "redis://me:hush@127.0.0.1:1/0"
    check_refused(run("run", "--redis-url", url), 64, r"can be read by everybody on this host \(redis://me:\*\*\*@127")
    done = run("status", environment={"RTA_REDIS__URL": url})
    check_refused(done, 69, r"redis://me:\*\*\*@127")
    assert "hush" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("python", "words"),
    [
        ("no-such-python", "no 'no-such-python' on the PATH"),
        ("old-python", "too old"),
    ],
)
def test_set_up_names_what_is_missing(tmp_path: Path, python: str, words: str) -> None:
    """No Python, or one that is too old, is said before anything is made."""
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo 'Python 3.9.2' || exit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        [ROOT / "tools" / "install", python, str(tmp_path / "venv"), "demo"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (69, 78)
    assert words in done.stderr
    assert not (tmp_path / "venv").exists()


def test_set_up_without_a_network_says_so(tmp_path: Path) -> None:
    """An index that can't be reached ends in a sentence about the index."""
    done = subprocess.run(
        [ROOT / "tools" / "install", sys.executable, str(tmp_path / "venv"), "demo"],
        env={
            "PATH": "/usr/bin:/bin",
            "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
            "PIP_RETRIES": "0",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_CACHE_DIR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 69
    assert "could not be installed" in done.stderr
    assert "Is the package index reachable?" in done.stderr


def test_check_config_shows_what_is_in_effect(tmp_path: Path) -> None:
    """Every setting with its origin, and no secret."""
    path = tmp_path / "s.toml"
    path.write_text("[node]\nttl_s = 90\n")
    secrets = {"RTA_HTTP__TOKEN": "hush-hush", "RTA_REDIS__URL": "redis://me:geheim@h:1"}
    done = run("check-config", "--config", str(path), "--json", environment=secrets)
    assert done.returncode == 0, done.stderr
    found = {line["name"]: (line["value"], line["origin"]) for line in json.loads(done.stdout)["settings"]}
    assert found["node.ttl_s"] == (90, f"{path}:2")
    assert found["redis.url"] == ("redis://me:***@h:1", "RTA_REDIS__URL")
    assert found["http.token"] == ("***", "RTA_HTTP__TOKEN")
    assert found["node.renew_s"] == (30.0, "default")
    assert "hush" not in done.stdout
    assert "geheim" not in done.stdout
    table = run("check-config", "--config", str(path), "--redis-url", "redis://h:2").stdout
    assert re.search(rf"node\.ttl_s +90 +{path}:2", table)
    assert re.search(r"redis\.url +redis://h:2 +command line", table)


def test_check_config_names_every_mistake(tmp_path: Path) -> None:
    """One line each, and 78."""
    path = tmp_path / "s.toml"
    path.write_text("[node]\nttl = 90\n[redis]\nurll = 5\n")
    done = run("check-config", "--config", str(path))
    assert done.returncode == 78
    assert done.stderr.splitlines() == [
        f"rta-supervisor: {path}:2: node.ttl: there is no such setting. Did you mean node.ttl_s?",
        f"rta-supervisor: {path}:4: redis.urll: there is no such setting. Did you mean redis.url?",
    ]
    assert json.loads(run("check-config", "--config", str(path), "--json").stdout)["valid"] is False
