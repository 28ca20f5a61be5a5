"""Doing something as a user for whom permissions count, even where tests run as root."""

import contextlib
import os
from collections.abc import Iterator

NOBODY = 65534


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """All threads of this process go without root's powers for the length of the block."""
    was = os.geteuid()
    if was != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(was)
