"""What the demo does while people look at the cars."""

import fcntl
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rta_supervisor.demo import play, watch
from rta_supervisor.embedded import processes

MESSAGES = 2000
"""More than any queue of a socket holds."""

TALKATIVE = f"""
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
    service.settimeout(3)
    service.connect(sys.argv[1])
    for _ in range({MESSAGES}):
        service.send(b"STATUS=well")
print('{{"event": "crashed"}}')
"""


@pytest.mark.timeout(30)
def test_what_services_say_is_taken() -> None:
    """A supervisor tells how it is for as long as it runs: nobody would read it otherwise, and telling would fail."""
    with tempfile.TemporaryDirectory(prefix="rtas-") as directory:
        path = Path(directory, "ready")
        command = [sys.executable, "-c", TALKATIVE, str(path)]
        log_path = Path(directory, "cars.log")
        log_path.touch()
        with (
            processes.ReadySocket(path) as ready,
            subprocess.Popen(command, stdout=subprocess.PIPE) as recorder,
            pytest.raises(play.DemoFailed, match=r"stopped by themselves \(crashed\)"),
        ):
            watch.wait_for_cars(recorder, [ready], Path(directory))


def test_a_directory_is_that_of_one_run(tmp_path: Path) -> None:
    """A second supervisor with the same catalogue would take the sessions of the first for abandoned."""
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(play.DemoFailed, match="another one plays in"):
            watch.watch(tmp_path)
