"""What trimming decides: which stream is idle, and below which id entries may go."""

import pytest

from rta_supervisor.retention.archive_floor import ArchiveFloor
from rta_supervisor.retention.trim_snapshot import TrimSnapshot

FLOOR = ArchiveFloor("50-0", ())


def snapshot(**changes: object) -> TrimSnapshot:
    return TrimSnapshot(**{"last_use_ms": {"rig": 1000.0}, "last_ids": {}, "busy": (), "floors": {}, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "idle_s", "at_ms", "is_idle"),
    [
        ({}, 2, 2999, False),
        ({}, 2, 3000, True),
        ({}, 0, 10**12, False),
        ({"busy": {"rig"}}, 2, 10**12, False),
        ({"floors": {"rig": FLOOR}}, 2, 10**12, False),
        ({"busy": {"other"}, "floors": {"other": FLOOR}}, 2, 3000, True),
    ],
)
def test_when_a_stream_is_idle(changes: dict[str, object], idle_s: float, at_ms: int, is_idle: bool) -> None:
    """Once it is unused for long enough; never with an open session, while the archive needs it, or where 0 is set."""
    assert snapshot(**changes).is_idle("rig", idle_s, at_ms) == is_idle


def test_streams_in_use_have_a_session_or_a_floor() -> None:
    """The same streams that are never idle."""
    assert snapshot(busy={"rig"}, floors={"other": FLOOR}).in_use == {"rig", "other"}


@pytest.mark.parametrize(
    ("changes", "boundary"),
    [
        ({}, "100-0"),
        ({"floors": {"rig": FLOOR}}, "50-0"),
        ({"floors": {"rig": ArchiveFloor("200-0", ())}}, "100-0"),
        ({"last_ids": {"rig": "9-5"}}, "9-5"),
        ({"last_ids": {"rig": "1000-0"}}, "100-0"),
        ({"last_ids": {"rig": None}}, "100-0"),
        ({"last_ids": {"rig": "9-5"}, "floors": {"rig": FLOOR}}, "50-0"),
    ],
)
def test_the_archive_lowers_the_boundary_of_trimming(changes: dict[str, object], boundary: str) -> None:
    """To the floor of the stream, or to the id at which it ended before the sessions were read; never upwards."""
    assert snapshot(**changes).boundary_for_archive("rig", "100-0") == boundary
