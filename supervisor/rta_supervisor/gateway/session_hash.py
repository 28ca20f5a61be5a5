"""What the hash of a session in Redis says. Other producers write such hashes too: a field that can't be right counts
as one that is not there, so that no session hides the others. Pure.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from rta_wire import entry_ids, keys, limits

FIELDS: Final = (
    *(keys.STREAM_NAME, keys.STREAM_SESSION_ID, keys.STREAM_POSITION, keys.JSON),
    *(keys.T_START, keys.T_END, keys.LAST_UPDATED),
)
"""What `parse` takes, in this order."""

NUMBER_MAX_CHARS: Final = 20


class SessionHash(msgspec.Struct, frozen=True):
    """The fields of a session that viewers may be shown."""

    stream: str
    stream_session_id: int
    first_position: str
    """The last id of the stream before the session's first entry; below all ids where the field says no id."""
    json: bytes
    """Session JSON, as somebody wrote it."""
    time_range_ns: tuple[int, int] | None
    updated_ms: int


def parse(values: Sequence[bytes | None]) -> SessionHash | None:
    """The session in the values of `FIELDS`; None where there is none, or it is not ready to be shown."""
    stream, number, position, document, start, end, updated = values
    stream_session_id = _number(number)
    if stream is None or document is None or stream_session_id is None or stream_session_id < 0:
        return None
    return SessionHash(
        stream=stream.decode(errors="replace"),
        stream_session_id=stream_session_id,
        first_position=_position(position),
        json=document,
        time_range_ns=_time_range(_number(start), _number(end)),
        updated_ms=_number(updated) or 0,
    )


def _number(value: bytes | None) -> int | None:
    is_number = value is not None and value.removeprefix(b"-").isdigit() and len(value) <= NUMBER_MAX_CHARS
    return int(value) if value is not None and is_number else None


def _position(value: bytes | None) -> str:
    text = (value or b"").decode(errors="replace")
    return text if entry_ids.is_valid(text) else entry_ids.MIN


def _time_range(start_ns: int | None, end_ns: int | None) -> tuple[int, int] | None:
    if start_ns is None or end_ns is None:
        return None
    is_possible = all(limits.TIME_NS_MIN <= time_ns <= limits.TIME_NS_MAX for time_ns in (start_ns, end_ns))
    return (start_ns, end_ns) if is_possible else None
