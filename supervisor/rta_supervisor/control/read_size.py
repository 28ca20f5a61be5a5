"""How many messages to read at a time, so that a read is over soon however large they are. Pure.

Redis bounds a read by a number of entries and not by bytes: the size of the next ones is guessed from the last ones. A
guess can be wrong once, when large messages follow small ones.
"""

from collections.abc import Sequence
from typing import Final

from rta_wire import limits

READ_TARGET_BYTES: Final = 2 * limits.MIB
"""Requests of everybody wait until a read is over: 30 MiB took more than half a second beside other work."""

FIRST_COUNT: Final = READ_TARGET_BYTES // limits.CONTROL_MAX_BYTES
"""As many of the largest messages as a read should have: nothing is known of the first ones."""


class ReadSize:
    """The number of entries to ask for, which doubles while they are small."""

    def __init__(self) -> None:
        self._count = FIRST_COUNT

    def count(self, most: int) -> int:
        """How many entries to ask for, `most` at most."""
        return min(self._count, most)

    def note(self, sizes: Sequence[int], most: int) -> None:
        """Learn from a read. `sizes`: the bytes of each message."""
        if sizes:
            fitting = len(sizes) * READ_TARGET_BYTES // max(sum(sizes), 1)
            self._count = max(1, min(2 * self._count, fitting, most))
