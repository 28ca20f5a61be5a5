"""The demo as a new user runs it: without Java or Redis on the PATH. Its data is right, and nothing is left over."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rta_supervisor.demo import cars
from rta_supervisor.embedded import server
from tests.acceptance import independent_reader
from tests.support.waiting import wait_until

HIDDEN_PROGRAMS = {"java", "javac", "jps", "redis-server", "redis-cli", "valkey-server", "valkey-cli", "docker"}


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A temporary directory with a short path: the path of a unix socket is limited to 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="rtas-") as directory:
        yield Path(directory)


@pytest.fixture
def environment(scratch: Path) -> dict[str, str]:
    """Variables with a PATH that has neither Java nor Redis, and one that marks every process of the test."""
    tools = scratch / "bin"
    tools.mkdir()
    for program in (*Path("/bin").iterdir(), *Path("/usr/bin").iterdir()):
        if program.name not in HIDDEN_PROGRAMS and not (tools / program.name).is_symlink():
            (tools / program.name).symlink_to(program)
    (scratch / "tmp").mkdir()
    inherited = ("HOME", "LANG", "COVERAGE_PROCESS_START", "SPARK_SUBMIT_OPTS")
    variables = {name: os.environ[name] for name in inherited if name in os.environ}
    return {**variables, "PATH": str(tools), "TMPDIR": str(scratch / "tmp"), "RTA_TEST_MARK": str(scratch)}


def marked_processes(scratch: Path) -> list[str]:
    """Command lines of running processes that have the mark of the test in their environment."""
    command_lines = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"RTA_TEST_MARK={scratch}".encode() in (directory / "environ").read_bytes():
                command_lines.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return command_lines


def test_the_demo_writes_what_the_protocol_says(scratch: Path, environment: dict[str, str]) -> None:
    """With --redis-url and without Java: a reader that shares no code with the project finds every rule kept."""
    assert shutil.which("java", path=environment["PATH"]) is None
    with server.running(port=server.free_port()) as embedded:
        assert embedded.port is not None
        completed = subprocess.run(
            [sys.executable, "-m", "rta_supervisor", "demo", "--redis-url", embedded.url, "--keep", "--json"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
        )
        assert completed.returncode == 0, completed.stderr + completed.stdout
        assert re.search(r"gateway +http://127.0.0.1:\d+/rta/v2", completed.stderr), "a gateway ran beside it"
        result = json.loads(completed.stdout)
        assert result["proven"] is True
        assert result["samples"] == cars.CARS * cars.CHANNELS * cars.TICKS
        content = independent_reader.read(embedded.port)
    own = [key for key in content["keys"] if key.startswith("rtas")]
    assert [key for key in own if not key.startswith("rtas:config:")] == [], "keys of the supervisor are removed"
    assert len(own) == 1, "the configuration of the sessions stays with them"
    check_protocol(content, result)
    assert marked_processes(scratch) == []
    assert list((scratch / "tmp").iterdir()) == []


def check_protocol(content: dict[str, object], result: dict[str, object]) -> None:
    """Everything that the protocol asks of closed sessions."""
    sessions = content["sessions"]
    assert isinstance(sessions, dict)
    assert len(sessions) == cars.CARS
    numbers = {int(session["fields"]["streamSessionId"]) for session in sessions.values()}
    assert len(numbers) == cars.CARS
    assert max(numbers) <= content["lastStreamSessionId"]  # type: ignore[operator]
    assert result["samples"] == sum(len(session["rows"]) for session in sessions.values())
    for session in sessions.values():
        fields = session["fields"]
        assert fields.keys() == {
            "streamSessionId", "streamName", "streamPosition", "lastUpdated", "json", "tStart", "tEnd",
        }  # fmt: skip
        assert session["order"][0] == session["order"][-1] == "json"
        assert session["order"].count("data") > 0
        assert [document["state"] for document in (session["documents"][0], session["documents"][-1])] == [
            "open",
            "closed",
        ]
        assert session["last_is_hash"]
        assert 0 < session["ttl_s"] <= 24 * 3600
        times = [time_ns for _, time_ns, _ in session["rows"]]
        assert (int(fields["tStart"]), int(fields["tEnd"])) == (min(times), max(times))
        assert session["ranges"][-1] == (min(times), max(times))
        pairs = list(zip(session["ranges"], session["ranges"][1:], strict=False))
        assert all(later[0] <= earlier[0] and earlier[1] <= later[1] for earlier, later in pairs), "ranges only widen"
        assert len(set(session["rows"])) == len(session["rows"]) == cars.CHANNELS * cars.TICKS
        final = session["documents"][-1]
        assert final["timeRange"] == {"startTime": min(times), "endTime": max(times)}
        assert {"identity", "state", "timestamp", "identifier", "details"} <= final.keys()


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_demo_leaves_no_process(scratch: Path, environment: dict[str, str], sig: signal.Signals) -> None:
    """SIGINT and even SIGKILL in the middle of streaming end the server, the supervisor, Spark and its workers."""
    with subprocess.Popen(
        [sys.executable, "-m", "rta_supervisor", "demo"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as demo:
        wait_until(
            lambda: any("pyspark.daemon" in line for line in marked_processes(scratch)),
            timeout_s=60,
            what="Spark workers",
        )
        demo.send_signal(sig)
        code = demo.wait(60)
    assert code == (130 if sig is signal.SIGINT else -signal.SIGKILL)
    wait_until(lambda: marked_processes(scratch) == [], timeout_s=30, what="the end of every process")
    if sig is signal.SIGINT:
        assert list((scratch / "tmp").iterdir()) == []
