"""The index entry of a stream as batches come and go."""

import pytest

from rta_supervisor.compaction import extents
from tests.unit.compaction.cold_parts import extent, header


def test_the_first_batch_makes_an_entry() -> None:
    """It covers what the batch covers."""
    first = extents.with_batch(None, header(), 100, session_id=7, added=12, at_ms=5)
    assert first == extent(
        last_id="9000010-0", entries=10, batches=1, added=12, size_bytes=100, live_bytes=300, raw_bytes=1000
    )


def test_a_batch_that_is_added_and_one_that_is_removed() -> None:
    """Counts and sizes follow; the highest session id stays, and so does what was ever added."""
    fourth = header(first_id="9000031-0", last_id="9000040-0")
    added = extents.with_batch(extent(), fourth, 100, session_id=3, added=45, at_ms=6)
    sums = {"entries": 40, "batches": 4, "size_bytes": 400, "live_bytes": 1200, "raw_bytes": 4000}
    assert added == extent(last_id="9000040-0", added=45, noted_ms=6, **sums)
    removed = extents.without_first_batch(added, header(), 100, second=header(first_id="9000011-0"), at_ms=7)
    assert removed == extent(first_id="9000011-0", last_id="9000040-0", added=45, noted_ms=7)


@pytest.mark.parametrize(
    ("names", "values", "session_id"),
    [
        ([b"id", b"data"], [b"17", b"x"], 17),
        ([b"data", b"id"], [b"9", b"17"], 17),
        ([b"id"], [b"seventeen"], 0),
        ([b"id"], [b"1" * 12], 111_111_111_111),
        ([b"id"], [b"1" * 13], 0),
        ([], [], 0),
    ],
)
def test_the_session_of_an_entry(names: list[bytes], values: list[bytes], session_id: int) -> None:
    """A number in the field `id`, of a length that a session may have."""
    assert extents.session_id_of(names, values) == session_id
