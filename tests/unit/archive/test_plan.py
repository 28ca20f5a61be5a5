"""The plan of a run: which sessions are chosen, and how they are read."""

from rta_supervisor.archive import plan as archive_plan
from rta_supervisor.archive.plan import ArchiveFilter
from rta_supervisor.settings.sections import archive as sections_archive
from tests.unit.archive.candidates import NOON_MS, candidate


def test_what_is_chosen() -> None:
    """By stream, source and time, oldest first, up to a number."""
    found = [candidate(n, stream=f"rig.2026051{n}", opened_ms=NOON_MS + n) for n in (3, 1, 2)] + [candidate(9)]
    assert [one.stream_session_id for one in ArchiveFilter().select(found)] == [1, 2, 3, 9]
    assert [one.stream_session_id for one in ArchiveFilter(sources=("rig",), since_ms=NOON_MS + 2).select(found)] == [
        2,
        3,
    ]
    assert [one.stream_session_id for one in ArchiveFilter(streams=("rig.20260511",)).select(found)] == [1]
    assert [one.stream_session_id for one in ArchiveFilter(limit=2).select(found)] == [1, 2]


def test_a_thousand_short_sessions_are_one_reading_of_their_stream() -> None:
    """And many small streams share a pass, within bounds."""
    many = [candidate(n, position=f"{n + 8}-5") for n in range(1000, 0, -1)]
    [one] = archive_plan.passes(many, sections_archive.ArchiveSettings())
    [stream] = one.streams
    assert (stream.after, len(stream.sessions)) == ("9-5", 1000)
    apart = [candidate(n, stream=f"rig-{n}") for n in range(40)]
    sources = {"rig-3": sections_archive.ArchiveSourceSettings(sample_type="float")}
    passes = archive_plan.passes(apart, sections_archive.ArchiveSettings(sources=sources))
    assert [len(one.streams) for one in passes] == [16, 16, 8]
    assert passes[0].streams[3].sample_type == "float"
    large = [candidate(n, stream=f"rig-{n}", stored_bytes=3 << 30) for n in range(3)]
    assert len(archive_plan.passes(large, sections_archive.ArchiveSettings())) == 3
