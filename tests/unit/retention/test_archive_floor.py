"""What trimming keeps of a stream for the archive, and which limits hold where that takes too much memory."""

from rta_supervisor.retention.archive_floor import (
    UNLIMITED_ENTRIES,
    ArchiveFloor,
    floors_by_stream,
    limits_past_floor,
)
from rta_supervisor.retention.unarchived_session import UnarchivedSession
from rta_supervisor.settings import settings


def test_the_floor_of_a_stream_is_its_lowest_position() -> None:
    """Compared as numbers and not as text, for each stream by itself."""
    first, second = UnarchivedSession(1, "rig", "9-0", "run-1"), UnarchivedSession(2, "rig", "10-0", "run-2")
    other = UnarchivedSession(3, "other", "0-0", "run-3")
    assert floors_by_stream([second, other, first]) == {
        "rig": ArchiveFloor("9-0", (second, first)),
        "other": ArchiveFloor("0-0", (other,)),
    }
    assert floors_by_stream([]) == {}


def test_a_session_is_cut_where_the_stream_begins_after_it() -> None:
    """A stream that begins with the entry at which a session begins has all of it."""
    first, second = UnarchivedSession(1, "rig", "9-0", "run-1"), UnarchivedSession(2, "rig", "10-0", "run-2")
    floor = ArchiveFloor("9-0", (first, second))
    assert floor.sessions_cut_before("9-0") == []
    assert floor.sessions_cut_before("10-0") == [first]
    assert floor.sessions_cut_before("100-0") == [first, second]


def test_past_the_floor_only_memory_counts() -> None:
    """A stream that waits for the archive loses no more entries than its memory demands."""
    limits = settings.TrimSettings(max_entries=5, max_age_s=60, exact=True).limits_for("rig")
    past = limits_past_floor(limits, 1000)
    assert (past.max_entries, past.max_bytes, past.max_age_s) == (UNLIMITED_ENTRIES, 1000, 0)
    assert past.exact
