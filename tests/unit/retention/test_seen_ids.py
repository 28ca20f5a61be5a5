"""How long entries have been in a stream, by the last ids that were seen."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.retention.seen_ids import SeenIds


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=30), st.integers(0, 20))
def test_the_last_id_at_a_time_is_the_last_that_was_seen_by_then(steps: list[tuple[int, int]], back_s: int) -> None:
    """Compared with all that was seen, for streams that only grow and times that only pass."""
    seen = SeenIds()
    at_s, number = 0, 0
    noted: list[tuple[int, int]] = []
    for pause_s, added in steps:
        at_s, number = at_s + pause_s, number + added
        seen.note(at_s, f"{number}-0")
        noted.append((at_s, number))
        early = [number for noted_s, number in noted if noted_s <= at_s - back_s]
        assert seen.last_id_at(at_s - back_s) == (f"{early[-1]}-0" if early else None)


def test_a_stream_that_begins_again_is_as_if_new() -> None:
    """What was seen before its last id fell says nothing about its entries; ids compare as numbers."""
    seen = SeenIds()
    seen.note(1, "9-0")
    seen.note(2, "10-0")
    assert seen.last_id_at(2) == "10-0"
    seen.note(3, "5-0")
    assert seen.last_id_at(2) is None
    assert seen.last_id_at(3) == "5-0"
