"""Sessions that wait for the archive: their members of the sorted set, and whether their entries are needed."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.retention.unarchived_session import UnarchivedSession


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
