"""The processes of a chaos run: supervisors and writers, as they can be started, frozen and killed."""

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.chaos import die_with_parent

SETTINGS: Final = {
    "RTA_SESSION__REFRESH_MS": "50",
    "RTA_SESSION__IDLE_REFRESH_S": "0.5",
    "RTA_SESSION__CLOSE_GRACE_S": "20",
    "RTA_CONTROL__RETRY_S": "0.5",
    "RTA_CATALOGUE__FLUSH_S": "0.2",
    "RTA_NODE__BEAT_S": "0.2",
    "RTA_NODE__TTL_S": "4",
    "RTA_NODE__RENEW_S": "1",
    "RTA_REDIS__TIMEOUT_S": "1.5",
    "RTA_NODE__LEASE_S": "1.5",
    "RTA_HTTP__HOST": "",
    "RTA_TRIM__ENABLED": "false",
}
"""Everything a little quicker, so that an hour holds more faults. Nothing is trimmed: what is gone was lost."""


class Process:
    """Something with a pid that we may do harm to."""

    def __init__(self, command: Sequence[str], log_path: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log_path = log_path
        self.is_frozen = False
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **die_with_parent.environment(), **(environment or {})},
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        self.thaw()
        self._process.terminate()

    def wait(self, timeout_s: float) -> int:
        return self._process.wait(timeout_s)

    def freeze(self) -> None:
        if self.exit_code is None:
            os.kill(self._process.pid, signal.SIGSTOP)
            self.is_frozen = True

    def thaw(self) -> None:
        if self.is_frozen and self.exit_code is None:
            os.kill(self._process.pid, signal.SIGCONT)
        self.is_frozen = False


class Supervisor(Process):
    """A daemon. All of a run share a catalogue, as those of one host do."""

    def __init__(self, url: str, directory: Path, number: int, extra: Mapping[str, str] | None = None) -> None:
        self.clock_path = directory / f"clock-{number}"
        self.jump_clock(0)
        environment = {
            **SETTINGS,
            "RTA_CATALOGUE__PATH": str(directory / "catalogue.sqlite"),
            "RTA_TEST_CLOCK": str(self.clock_path),
            **(extra or {}),
        }
        command = ("tests.chaos.supervisor", "run", "--redis-url", url, "--log-format", "json")
        super().__init__(command, directory / f"supervisor-{number}.log", environment)

    def jump_clock(self, offset_s: int) -> None:
        with self.clock_path.open("r+b" if self.clock_path.exists() else "wb") as file:
            file.write(struct.pack("<q", offset_s))

    @property
    def is_ready(self) -> bool:
        return self.exit_code is None and b'"supervisor_started"' in self.log_path.read_bytes()

    def events(self, name: str) -> list[dict[str, Any]]:
        needle = f'"{name}"'.encode()
        lines = [line for line in self.log_path.read_bytes().splitlines() if needle in line and line.endswith(b"}")]
        return [event for line in lines if (event := msgspec.json.decode(line))["event"] == name]


class Writer(Process):
    """One attempt of a unit."""

    def __init__(self, options: Mapping[str, str], notes: Path, unit: int, *arguments: str) -> None:
        self.unit = unit
        self.notes = notes
        self._noted_before = self.noted_bytes
        option_arguments = [f"{name}={value}" for name, value in options.items()]
        command = ("tests.chaos.writer", *option_arguments, "--unit", str(unit), "--notes", str(notes), *arguments)
        super().__init__(command, notes.with_suffix(".log"))

    @property
    def noted_bytes(self) -> int:
        return self.notes.stat().st_size if self.notes.exists() else 0

    @property
    def is_writing(self) -> bool:
        """Whether something was acknowledged since it was started."""
        return self.exit_code is None and self.noted_bytes > self._noted_before

    def refusals(self) -> list[str]:
        """Why it was refused, for good or not."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [line.split()[3] for line in lines if line.startswith("X ")]
