"""What a request to trim asks for, and why entries stay, without a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.compaction import cold_limits
from rta_supervisor.retention.trim_requests import rules
from rta_supervisor.retention.trim_requests.rules import Protection
from rta_wire import entry_ids
from rta_wire.pb import control_pb2
from tests.unit.compaction.cold_parts import extent, header

AT_MS = 1_800_000_000_000


def keep(entries: int) -> control_pb2.TrimStream:
    return control_pb2.TrimStream(stream="rig", keep_entries=entries)


def before(time_ms: int) -> control_pb2.TrimStream:
    return control_pb2.TrimStream(stream="rig", before_ms=time_ms)


@given(time_ms=st.integers(0, AT_MS + 10**9), around=st.integers(-3, 3), ago=st.integers(0, AT_MS))
def test_a_batch_goes_where_all_of_it_came_before_the_time(time_ms: int, around: int, ago: int) -> None:
    """To the millisecond, however long ago; a time in the future is now."""
    limits = rules.cold_limits(before(time_ms), AT_MS)
    usage = cold_limits.StreamUsage(live_entries=0, memory_bytes=0, at_ms=AT_MS)
    for last_ms in (max(time_ms + around, 1), max(ago, 1)):
        batch = header(last_id=f"{last_ms}-0")
        assert cold_limits.should_remove(batch, extent(), usage, limits) == (last_ms < min(time_ms, AT_MS))


@pytest.mark.parametrize(
    ("archive", "retention", "cold_entries", "reason"),
    [
        (entry_ids.MAX, "9-0", 0, rules.FOR_OPEN_SESSIONS),
        ("8-0", "9-0", 0, rules.FOR_ARCHIVE),
        ("9-0", "8-0", 0, rules.FOR_OPEN_SESSIONS),
        (entry_ids.MAX, "9-0", 4, rules.FOR_BATCH),
        ("8-0", "9-0", 4, rules.FOR_ARCHIVE),
    ],
)
def test_why_entries_stay(archive: str, retention: str, cold_entries: int, reason: str) -> None:
    """The lower boundary is the reason, or the batch that holds them."""
    protection = Protection(archive, retention)
    for request, entries, first_id, stays in (
        (keep(10), 11, "5-0", True),
        (keep(10), 10, "5-0", False),
        (before(6), 2, "5-0", True),
        (before(5), 2, "5-0", False),
        (before(6), 1, "5-0", False),
        (before(6), 0, None, False),
    ):
        told = rules.kept_because(request, protection, entries=entries, cold_entries=cold_entries, first_id=first_id)
        assert told == (reason if stays else ""), request


def test_a_call_removes_less_of_large_entries() -> None:
    """About as many bytes whatever their size, and one entry at least."""
    assert rules.entries_per_call(1000, 1000 * 100, 1000) == 1000
    assert rules.entries_per_call(1000, 1000 * 100_000, 1000) == 20
    assert rules.entries_per_call(10, 10 * 10**9, 1000) == 1
    assert rules.entries_per_call(0, 0, 1000) == 1000
