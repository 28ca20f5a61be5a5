"""The plan of a run: which sessions are selected, and how they are divided into passes."""

import pytest

from rta_supervisor.archive import plan
from rta_supervisor.archive.plan import ArchiveFilter
from rta_supervisor.settings.sections.archive import ArchiveSettings, ArchiveSourceSettings
from rta_wire.session import State
from tests.unit.archive.candidates import NOON_MS, candidate, planned


@pytest.mark.parametrize(
    ("archive_filter", "selected"),
    [
        (ArchiveFilter(), [1, 2, 3, 9]),
        (ArchiveFilter(sources=("rig",), since_ms=NOON_MS + 2), [2, 3]),
        (ArchiveFilter(streams=("rig.20260511",)), [1]),
        (ArchiveFilter(limit=2), [1, 2]),
    ],
)
def test_what_a_filter_selects(archive_filter: ArchiveFilter, selected: list[int]) -> None:
    """By stream, source and time, oldest first, up to a number."""
    candidates = [candidate(n, stream=f"rig.2026051{n}", opened_ms=NOON_MS + n) for n in (3, 1, 2)] + [candidate(9)]
    assert [session.stream_session_id for session in archive_filter.select(candidates)] == selected


def test_a_limit_takes_closed_sessions_first() -> None:
    """Open ones stay candidates for ever: older ones would keep closed ones from being archived."""
    candidates = [candidate(n, state=State.OPEN if n < 3 else State.CLOSED) for n in (1, 2, 3, 4)]
    for limit, selected in ((1, [3]), (2, [3, 4]), (3, [3, 4, 1]), (0, [1, 2, 3, 4])):
        found = ArchiveFilter(limit=limit).select(candidates)
        assert [session.stream_session_id for session in found] == selected


@pytest.mark.parametrize(
    ("state", "is_archived", "closed_only", "is_admitted"),
    [
        (State.OPEN, False, False, True),
        (State.OPEN, False, True, False),
        (State.CLOSED, False, True, True),
        (State.CLOSED, True, False, False),
    ],
)
def test_live_sessions_that_are_archived(state: State, is_archived: bool, closed_only: bool, is_admitted: bool) -> None:
    """Open ones unless only closed ones are wanted, and closed ones that the archive does not have."""
    session = candidate(state=state, is_archived=is_archived)
    assert ArchiveFilter(closed_only=closed_only).admits_live(session) is is_admitted


def test_sessions_of_a_stream_are_read_together() -> None:
    """A thousand short sessions are one reading of their stream, from the lowest position on; more are two."""
    candidates = [planned(candidate(n, position=f"{n + 8}-5")) for n in range(1000, 0, -1)]
    [only_pass] = plan.passes(candidates, ArchiveSettings())
    [stream] = only_pass.streams
    assert (stream.after, len(stream.sessions)) == ("9-5", 1000)
    passes = plan.passes([*candidates, planned(candidate(1001))], ArchiveSettings())
    assert [[len(stream.sessions) for stream in each.streams] for each in passes] == [[1000], [1]]


def test_small_streams_share_a_pass() -> None:
    """Up to a number of streams and to a size; each stream with the sample type of its source."""
    candidates = [planned(candidate(n, stream=f"rig-{n}")) for n in range(40)]
    sources = {"rig-3": ArchiveSourceSettings(sample_type="float")}
    passes = plan.passes(candidates, ArchiveSettings(sources=sources))
    assert [len(each.streams) for each in passes] == [16, 16, 8]
    assert [stream.sample_type for stream in passes[0].streams[2:5]] == ["double", "float", "double"]
    large = [planned(candidate(n, stream=f"rig-{n}", stored_bytes=3 << 30)) for n in range(3)]
    assert len(plan.passes(large, ArchiveSettings())) == 3
