"""A supervisor as a process of its own, with the log and the signals that systemd would give it."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import msgspec

from rta_supervisor.embedded.processes import ReadySocket
from tests.support import fork_server
from tests.support.waiting import wait_until

QUICK = {
    "RTA_SESSION__REFRESH_MS": "20",
    "RTA_SESSION__IDLE_REFRESH_S": "0.2",
    "RTA_SESSION__CLOSE_GRACE_S": "0.5",
    "RTA_CONTROL__RETRY_S": "0.5",
    "RTA_CATALOGUE__FLUSH_S": "0.05",
    "RTA_NODE__BEAT_S": "0.1",
    "RTA_HTTP__PORT": "0",
}
"""Settings that make a test wait less for the same behaviour."""

FORKED = ("rta_supervisor", "tests.support.killable_supervisor", "tests.chaos.freezable_supervisor")
"""Programs that change nothing before the daemon is loaded."""


class Supervisor:
    """One running daemon and its log. Without a URL, that of the environment counts."""

    def __init__(
        self,
        url: str,
        environment: Mapping[str, str] | None = None,
        module: str = "rta_supervisor",
        *,
        is_fresh: bool = False,
    ) -> None:
        """`is_fresh`: an interpreter of its own, as systemd starts it."""
        self.process: fork_server.Fork | subprocess.Popen[bytes]
        self.directory = Path(tempfile.mkdtemp(prefix="rtas-test-"))
        own = {"NOTIFY_SOCKET": str(self.directory / "ready"), "XDG_STATE_HOME": str(self.directory)}
        self.log_path = self.directory / "log"
        with ReadySocket(self.directory / "ready") as ready, self.log_path.open("wb") as log:
            words = ["run", *(("--redis-url", url) if url else ()), "--log-format", "json"]
            env = {**os.environ, **QUICK, **own, **(environment or {})}
            if module in FORKED and not is_fresh:
                self.process = fork_server.Fork(module, words, env, log)
            else:
                command = [sys.executable, "-m", module, *words]
                self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)
            assert ready.wait(cast("subprocess.Popen[bytes]", self.process)), self.log_path.read_text()

    def events(self, name: str) -> list[dict[str, object]]:
        lines = self.log_path.read_bytes().splitlines()
        return [event for line in lines if (event := msgspec.json.decode(line))["event"] == name]

    def wait_for_event(self, name: str) -> dict[str, object]:
        return wait_until(lambda: self.events(name), what=f"event {name}")[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def hurry(self) -> None:
        """End it as somebody does who has no time for the lanes: by a second signal, once the first one has come."""
        self.process.send_signal(signal.SIGTERM)
        wait_until(lambda: self.process.poll() is not None or self.events("supervisor_stopping"), what="the signal")
        self.stop()


@contextlib.contextmanager
def running(
    url: str, environment: Mapping[str, str] | None = None, module: str = "rta_supervisor", *, is_fresh: bool = False
) -> Iterator[Supervisor]:
    supervisor = Supervisor(url, environment, module, is_fresh=is_fresh)
    try:
        yield supervisor
    finally:
        supervisor.stop()
        print(supervisor.log_path.read_text())  # pytest shows it where the test failed
        shutil.rmtree(supervisor.directory)
