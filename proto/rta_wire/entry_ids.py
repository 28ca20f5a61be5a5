"""Ids of stream entries, `<ms>-<seq>`: compared, counted on, and bounded."""

from typing import Final

PART_MAX: Final = 2**64 - 1
MIN: Final = "0-0"
"""Before every entry: no entry can have it."""

MAX: Final = f"{PART_MAX}-{PART_MAX}"


def parse(text: str) -> tuple[int, int]:
    """The two numbers of an entry id, which compare as entries follow each other."""
    ms, _, seq = text.partition("-")
    return int(ms), int(seq or 0)


def ms_of(text: str) -> int:
    """The time in an entry id: when it was added, where the server made the id."""
    return int(text.partition("-")[0])


def is_after(one: str, other: str) -> bool:
    """Whether one entry came later than the other."""
    return parse(one) > parse(other)


def next_id(entry_id: str) -> str:
    """The next id that there can be; the last of all ids has none and stays."""
    ms, seq = parse(entry_id)
    if seq < PART_MAX:
        return f"{ms}-{seq + 1}"
    return f"{ms + 1}-0" if ms < PART_MAX else entry_id


def previous_id(entry_id: str) -> str:
    """The id before; the first of all has none and stays."""
    ms, seq = parse(entry_id)
    if seq:
        return f"{ms}-{seq - 1}"
    return f"{ms - 1}-{PART_MAX}" if ms else MIN
