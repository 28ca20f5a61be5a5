"""What the hash of a session says, whoever wrote it."""

import pytest

from rta_supervisor.gateway import session_hash
from rta_wire import entry_ids, limits

GOOD: tuple[bytes | None, ...] = (b"rig", b"7", b"5-1", b"{}", b"-3", b"9", b"1700")
STREAM, NUMBER, POSITION, JSON, START, END, UPDATED = range(7)


def changed(place: int, value: bytes | None) -> tuple[bytes | None, ...]:
    return (*GOOD[:place], value, *GOOD[place + 1 :])


def test_a_session_as_it_should_be() -> None:
    """Every field is taken."""
    assert session_hash.parse(GOOD) == session_hash.SessionHash("rig", 7, "5-1", b"{}", (-3, 9), 1700)


@pytest.mark.parametrize(
    ("place", "value"),
    [(STREAM, None), (JSON, None), (NUMBER, None), (NUMBER, b"-1"), (NUMBER, b"7a"), (NUMBER, b"1" * 5000)],
)
def test_without_a_stream_a_document_or_a_number_there_is_none(place: int, value: bytes | None) -> None:
    """It is not ready to be shown, or will never be."""
    assert session_hash.parse(changed(place, value)) is None


@pytest.mark.parametrize("value", [None, b"", b"-", b"--5", b"soon", b"1" * 5000, b"%d" % (limits.TIME_NS_MAX + 1)])
def test_a_time_range_that_is_none(value: bytes | None) -> None:
    """Either end of it is enough."""
    for place in (START, END):
        session = session_hash.parse(changed(place, value))
        assert session is not None
        assert session.time_range_ns is None


@pytest.mark.parametrize("value", [None, b"", b"here", b"\xff", b"5", b"1" * 5000 + b"-0", b"9" * 20 + b"-0"])
def test_a_position_that_is_none(value: bytes | None) -> None:
    """The session may begin anywhere in its stream then."""
    session = session_hash.parse(changed(POSITION, value))
    assert session is not None
    assert session.first_position == entry_ids.MIN
