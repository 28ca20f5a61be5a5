"""A supervisor that ends with the harness and whose clock can be made to jump. Run as a program, like the real one."""

import mmap
import os
import struct
import sys
import time
from pathlib import Path

from rta_supervisor.cli import entry as cli_entry
from tests.chaos import die_with_parent

_real_ns = time.time_ns


def jump_with(path: Path) -> None:
    """From now on every clock of this process is off by the seconds in a file of eight bytes."""
    with path.open("rb") as file:
        shared = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)

    def time_ns() -> int:
        return _real_ns() + int(struct.unpack("<q", shared[:])[0]) * 1_000_000_000

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


if __name__ == "__main__":
    die_with_parent.enable()
    jump_with(Path(os.environ["RTA_TEST_CLOCK"]))
    sys.exit(cli_entry.main())
