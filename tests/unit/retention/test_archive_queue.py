"""The list of sessions that wait for the archive."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.retention.archive_queue import UnarchivedSession


@given(
    st.builds(
        UnarchivedSession,
        st.integers(0, 2**63),
        st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
        st.sampled_from(["0-0", "17-3", "+"]),
        st.text(st.characters(exclude_categories=["C"]), min_size=1),
    )
)
def test_names_in_the_list_say_everything(one: UnarchivedSession) -> None:
    """Identities may hold spaces."""
    assert UnarchivedSession.parse(one.member.encode()) == one
