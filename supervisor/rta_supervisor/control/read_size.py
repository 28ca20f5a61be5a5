"""How many messages to read at a time, so that a read is over soon however large they are. Pure.

Redis bounds a read by a number of entries of each stream and not by bytes: the size of the next ones is guessed from
the last ones of that stream. A guess can be wrong once, when large entries follow small ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rta_wire import limits

READ_TARGET_BYTES: Final = 2 * limits.MIB
"""Requests of everybody wait until a read is over: 30 MiB took more than half a second beside other work."""

FIRST_COUNT: Final = READ_TARGET_BYTES // limits.CONTROL_MAX_BYTES
"""As many of the largest messages as a read should have: nothing is known of the first ones."""


class ReadSize:
    """The number of entries to ask for of each stream, which doubles while they are small, or there are none."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def count(self, stream_keys: Iterable[str], most: int) -> int:
        """How many entries of each of some streams to ask for, `most` at most."""
        return min([most, *(self._counts.get(key, FIRST_COUNT) for key in stream_keys)])

    def note(self, sizes: Mapping[str, Sequence[int]], most: int) -> None:
        """Learn from a read of some streams. `sizes`: the bytes of each entry, by stream."""
        busy = max(1, sum(map(bool, sizes.values())))
        for key, own in sizes.items():
            fitting = len(own) * READ_TARGET_BYTES // busy // max(sum(own), 1) if own else most
            self._counts[key] = max(1, min(2 * self._counts.get(key, FIRST_COUNT), fitting, most))
