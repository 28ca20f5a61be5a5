"""Commands of `rta-supervisor` as processes on a pseudo terminal."""

import contextlib
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping

from tests.support.waiting import wait_until


class Terminal:
    """A command on a terminal of 100 by 30 characters."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._controller, terminal = pty.openpty()
        termios.tcsetwinsize(terminal, (30, 100))
        environ = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rta_supervisor", *arguments],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**environ, "TERM": "xterm-256color", **(environment or {})},
            start_new_session=True,
        )
        os.close(terminal)
        os.set_blocking(self._controller, False)
        self._output = b""

    @property
    def output(self) -> str:
        """Everything that the command has printed so far."""
        with contextlib.suppress(BlockingIOError, OSError):  # EIO: the command has ended
            while part := os.read(self._controller, 65_536):
                self._output += part
        return self._output.decode(errors="replace")

    def wait_for(self, text: str) -> None:
        wait_until(
            lambda: text in self.output, timeout_s=60, what=f"{text!r} on the terminal; it shows {self.output!r}"
        )

    def type(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def wait(self) -> int:
        """Waits for the end of the command, reads the rest of its output and gives the exit code."""
        wait_until(
            lambda: (self.output, self.process.poll())[1] is not None, timeout_s=60, what="the end of the command"
        )
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._controller)


@contextlib.contextmanager
def on_terminal(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    terminal = Terminal(*arguments, environment=environment)
    try:
        yield terminal
    finally:
        terminal.close()
