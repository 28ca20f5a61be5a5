"""Follows a stream: every entry once, and a gap wherever entries were removed before they could be read.

Does no I/O: the caller hands in a function that reads a part of the stream together with the stream's counters, both
from one moment (MULTI, XINFO STREAM, XRANGE, EXEC). Redis does not say which entries a trim removed, but it counts
every entry ever added: what was added and is not there any more was removed from the front.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from rta_wire import errors

START: Final = "0-0"


class Entry(NamedTuple):
    """One entry of a stream."""

    id: str
    stream_session_id: int
    data: bytes


class Gap(NamedTuple):
    """Entries after one id and before another that nobody can read any more.

    `entries` is their number; where the stream was not read from its start it may be the most that it can be, and
    `exact` is False. `restarted` means that the stream was removed and made again: how much went with it is unknown.
    """

    after: str
    before: str
    entries: int
    exact: bool = True
    restarted: bool = False


class Part(NamedTuple):
    """Some entries of a stream right after an id, and the counters of the stream at the same moment."""

    entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]]
    entries_added: int
    length: int
    first_id: str | None
    last_id: str
    complete: bool
    """Whether `entries` goes to the end of the stream."""


def parse_id(text: str) -> tuple[int, int]:
    """The two numbers of an entry id, which compare as entries follow each other."""
    ms, _, seq = text.partition("-")
    return int(ms), int(seq or 0)
