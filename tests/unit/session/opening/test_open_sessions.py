"""How many sessions a principal has open: counted in Redis now and then, and here in between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.session.opening.open_sessions import OpenSessions
from rta_supervisor.settings import settings
from rta_wire import errors


def open_sessions(limit: int) -> OpenSessions:
    return OpenSessions(settings.Settings(limits=settings.LimitsSettings(open_sessions=limit)))


def test_beyond_the_limit_an_open_is_refused() -> None:
    """Of that principal alone, until one of its sessions is closed."""
    sessions = open_sessions(2)
    sessions.add("p", "a")
    sessions.add("p", "b")
    with pytest.raises(errors.LimitReached, match=r"'p' has 2 open sessions already.*limits.open_sessions = 2"):
        sessions.add("p", "c")
    sessions.add("q", "c")
    sessions.remove("p", "a")
    sessions.add("p", "c")


@given(
    counted=st.dictionaries(st.sampled_from("abcdef"), st.just("p")),
    changes=st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=10),
)
def test_what_changed_since_the_last_count_is_counted_once(
    counted: dict[str, str], changes: list[tuple[str, bool]]
) -> None:
    """A session that is opened shortly before a count, or during it, may be among those that were seen, or not."""
    sessions = open_sessions(100)
    for identity, is_open in changes:
        (sessions.add if is_open else sessions.remove)("p", identity)
    sessions.take_over_count(counted)
    last = dict(changes)
    assert sessions._counts["p"] == sum(last.get(identity, identity in counted) for identity in "abcdef")
