"""Programs of a chaos run end with the harness, however it ends, and however early."""

import os
import signal
from typing import Final

from rta_supervisor.embedded import keeper

HOLDER: Final = "RTA_TEST_HOLDER"


def held() -> dict[str, str]:
    """For the environment of a program that is to end with this process."""
    return {HOLDER: str(os.getpid())}


def put_on() -> None:
    """In the program. Where the harness is gone by now, so are we."""
    keeper.die_with_parent(int(os.environ[HOLDER]), signal.SIGKILL)()
