"""Sessions that wait for the archive: their members of the list, and what trimming keeps for them."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.retention.archive_queue import ArchiveFloor, UnarchivedSession, floors_by_stream


@given(
    st.builds(
        UnarchivedSession,
        st.integers(0, 2**63),
        st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
        st.sampled_from(["0-0", "17-3", "+"]),
        st.text(st.characters(exclude_categories=["C"]), min_size=1),
    )
)
def test_a_member_of_the_list_reads_back(session: UnarchivedSession) -> None:
    """Whatever the identity holds, spaces included."""
    assert UnarchivedSession.parse(session.member.encode()) == session


def test_only_new_json_needs_no_entries() -> None:
    """A session whose data is archived keeps no entry in Redis, whatever its JSON says since."""
    assert UnarchivedSession(1, "rig", "0-0", "run-1").needs_entries
    assert not UnarchivedSession(1, "rig", "+", "run-1").needs_entries


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
