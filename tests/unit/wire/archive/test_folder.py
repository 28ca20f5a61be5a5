"""What the folder of an archived session covers, and its holes."""

import pytest

from rta_wire import entry_ids
from rta_wire.archive import names
from rta_wire.archive.folder import SessionArchive
from rta_wire.archive.manifest import PartManifest


def part(number: int) -> PartManifest:
    """A part with the entries of ten milliseconds."""
    return PartManifest(
        identity="run",
        stream_session_id=1,
        stream="rig",
        number=number,
        after=f"{10 * number}-0",
        until=f"{10 * number + 10}-0",
        added=5 * number,
        entries=5,
        first_id=f"{10 * number + 1}-0",
        last_id=f"{10 * number + 10}-0",
        rows={},
        content={},
        files=(),
    ).with_checksum()


@pytest.mark.parametrize(
    ("unreadable", "expected", "has_lost_end"),
    [
        ((), [("10-0", "20-0", 1), ("20-0", "30-0", 2), ("30-0", "40-0", 3)], False),
        ((1,), [("0-0", "20-0", None), ("20-0", "30-0", 2), ("30-0", "40-0", 3)], False),
        ((2,), [("10-0", "20-0", 1), ("20-0", "30-0", None), ("30-0", "40-0", 3)], False),
        ((1, 2), [("0-0", "30-0", None), ("30-0", "40-0", 3)], False),
        ((3,), [("10-0", "20-0", 1), ("20-0", "30-0", 2)], True),
        ((1, 2, 3), [], True),
    ],
)
def test_segments(unreadable: tuple[int, ...], expected: list[tuple[str, str, int | None]], has_lost_end: bool) -> None:
    """A part whose manifest can't be read is a hole, also the first one; the last one is a lost end."""
    manifests = {
        names.part_manifest(number): b"{" if number in unreadable else part(number).encode() for number in (1, 2, 3)
    }
    archive = SessionArchive.parse("run", manifests)
    begin = "0-0" if 1 in unreadable else "10-0"
    segments = list(archive.segments(begin))
    assert [(one.after, one.until, one.part.number if one.part else None) for one in segments] == expected
    assert all(bool(one.problem) is (one.part is None) for one in segments)
    assert bool(archive.lost_end) is has_lost_end
    assert list(archive.segments(archive.until if archive.parts else entry_ids.MAX)) == []
