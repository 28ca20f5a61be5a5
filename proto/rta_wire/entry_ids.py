"""Ids of stream entries, `<ms>-<seq>`: reads, writes and compares them, and finds their neighbours and bounds."""

import re
from typing import Final

PART_MAX: Final = 2**64 - 1
"""The largest time and the largest sequence number that Redis takes."""

MIN: Final = "0-0"
"""The id below those of all entries: Redis refuses to add an entry with it."""

MAX: Final = f"{PART_MAX}-{PART_MAX}"
_ENTRY_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


def is_valid(text: str) -> bool:
    """Whether a text is an entry id as Redis writes it."""
    return _ENTRY_ID.fullmatch(text) is not None and max(parse(text)) <= PART_MAX


def parse(entry_id: str) -> tuple[int, int]:
    """Time in ms and sequence number, which compare as entries follow each other. A missing sequence number is 0."""
    ms, _, seq = entry_id.partition("-")
    return int(ms), int(seq or 0)


def format_id(ms: int, seq: int = 0) -> str:
    """The id of a time in ms and a sequence number."""
    return f"{ms}-{seq}"


def ms_of(entry_id: str) -> int:
    """The time in an entry id, in ms: when the entry was added, where the server made the id."""
    return int(entry_id.partition("-")[0])


def is_after(entry_id: str, other_id: str) -> bool:
    """Whether the first id is higher than the second: its entry was added later."""
    return parse(entry_id) > parse(other_id)


def next_id(entry_id: str) -> str:
    """The lowest id above this one. `MAX` has none and is returned itself."""
    ms, seq = parse(entry_id)
    if seq < PART_MAX:
        return format_id(ms, seq + 1)
    return format_id(ms + 1) if ms < PART_MAX else MAX


def previous_id(entry_id: str) -> str:
    """The highest id below this one. `MIN` has none and is returned itself."""
    ms, seq = parse(entry_id)
    if seq:
        return format_id(ms, seq - 1)
    return format_id(ms - 1, PART_MAX) if ms else MIN
