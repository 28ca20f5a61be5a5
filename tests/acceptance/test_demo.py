"""The demo as a new user runs it: no Java, no Redis on the PATH, nothing left over, and the data is right."""

import contextlib
import json
import os
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

HIDDEN = {"java", "javac", "jps", "redis-server", "redis-cli", "valkey-server", "valkey-cli", "docker"}


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A short directory of its own for everything temporary: unix sockets do not like long names."""
    with tempfile.TemporaryDirectory(prefix="rtas-") as directory:
        yield Path(directory)


@pytest.fixture
def bare(scratch: Path) -> dict[str, str]:
    """An environment with everything that the system has but Java and Redis, and a mark on every process."""
    tools = scratch / "bin"
    tools.mkdir()
    for found in (*Path("/bin").iterdir(), *Path("/usr/bin").iterdir()):
        if found.name not in HIDDEN and not (tools / found.name).is_symlink():
            (tools / found.name).symlink_to(found)
    (scratch / "tmp").mkdir()
    kept = ("HOME", "LANG", "COVERAGE_PROCESS_START", "SPARK_SUBMIT_OPTS")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    return {**environment, "PATH": str(tools), "TMPDIR": str(scratch / "tmp"), "RTA_TEST_MARK": str(scratch)}


def marked_processes(scratch: Path) -> list[str]:
    """Command lines of living processes that inherited the environment of the test."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"RTA_TEST_MARK={scratch}".encode() in (directory / "environ").read_bytes():
                found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def test_the_demo_leaves_what_the_protocol_says(scratch: Path, bare: dict[str, str]) -> None:
    """With a given server and without Java: a reader that shares no code with us finds every rule kept."""
    assert shutil.which("java", path=bare["PATH"]) is None
    with server.running(port=server.free_port()) as given:
        assert given.port is not None
        done = subprocess.run(
            [sys.executable, "-m", "rta_supervisor", "demo", "--redis-url", given.url, "--keep", "--json"],
            env=bare,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        result = json.loads(done.stdout)
        assert result["proven"] is True
        assert result["samples"] == cars.CARS * cars.CHANNELS * cars.TICKS
        found = independent_reader.read(given.port)
    assert not [key for key in found["keys"] if key.startswith("rtas")], "keys of our own are gone"
    check_protocol(found, result)
    assert marked_processes(scratch) == []
    assert list((scratch / "tmp").iterdir()) == []


def check_protocol(found: dict[str, object], result: dict[str, object]) -> None:
    """Everything that protocol.md asks of a closed session."""
    sessions = found["sessions"]
    assert isinstance(sessions, dict)
    assert len(sessions) == cars.CARS
    numbers = {int(one["fields"]["streamSessionId"]) for one in sessions.values()}
    assert len(numbers) == cars.CARS
    assert max(numbers) <= found["lastStreamSessionId"]  # type: ignore[operator]
    assert result["samples"] == sum(len(one["rows"]) for one in sessions.values())
    for one in sessions.values():
        fields = one["fields"]
        assert fields.keys() == {
            "streamSessionId", "streamName", "streamPosition", "lastUpdated", "json", "tStart", "tEnd",
        }  # fmt: skip
        assert one["order"][0] == one["order"][-1] == "json"
        assert one["order"].count("data") > 0
        assert [document["state"] for document in (one["documents"][0], one["documents"][-1])] == ["open", "closed"]
        assert one["last_is_hash"]
        assert 0 < one["ttl_s"] <= 24 * 3600
        times = [time_ns for _, time_ns, _ in one["rows"]]
        assert (int(fields["tStart"]), int(fields["tEnd"])) == (min(times), max(times))
        assert one["ranges"][-1] == (min(times), max(times))
        widening = list(zip(one["ranges"], one["ranges"][1:], strict=False))
        assert all(b[0] <= a[0] and a[1] <= b[1] for a, b in widening), "ranges only widen"
        assert len(set(one["rows"])) == len(one["rows"]) == cars.CHANNELS * cars.TICKS
        final = one["documents"][-1]
        assert final["timeRange"] == {"startTime": min(times), "endTime": max(times)}
        assert {"identity", "state", "timestamp", "identifier", "details"} <= final.keys()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_demo_leaves_no_process(scratch: Path, bare: dict[str, str], how: signal.Signals) -> None:
    """Ctrl-C, and even kill -9, in the middle of streaming: server, supervisor, Spark and its workers all go."""
    with subprocess.Popen(
        [sys.executable, "-m", "rta_supervisor", "demo"],
        env=bare,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as demo:
        wait_until(
            lambda: any("pyspark.daemon" in line for line in marked_processes(scratch)),
            timeout_s=60,
            what="Spark workers",
        )
        demo.send_signal(how)
        code = demo.wait(60)
    assert code == (130 if how is signal.SIGINT else -signal.SIGKILL)
    wait_until(lambda: marked_processes(scratch) == [], timeout_s=30, what="the end of every process")
    if how is signal.SIGINT:
        assert list((scratch / "tmp").iterdir()) == []
