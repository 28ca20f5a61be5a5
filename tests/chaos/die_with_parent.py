"""Programs of a chaos run end with the harness, however it ends, and however early."""

import os
import signal
from typing import Final

from rta_supervisor.embedded import process_guard

PARENT: Final = "RTA_TEST_PARENT"


def environment() -> dict[str, str]:
    """For the environment of a program that is to end with this process."""
    return {PARENT: str(os.getpid())}


def enable() -> None:
    """Called by the program: it ends when the harness ends, or at once if the harness is gone."""
    process_guard.die_with_parent(int(os.environ[PARENT]), signal.SIGKILL)()
