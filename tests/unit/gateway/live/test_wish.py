"""Subscriptions add up."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.gateway.live.wish import NOTHING, Wish

WISHES = st.builds(Wish, st.booleans(), st.booleans(), st.frozensets(st.integers(0, 20)))


def covers(wish: Wish, channel: int) -> bool:
    return wish.all_channels or channel in wish.channel_ids


@given(WISHES, WISHES, st.integers(0, 20))
def test_union_and_difference(one: Wish, other: Wish, channel: int) -> None:
    """A union wants what either wants; what is new of a wish and what was there make up the union."""
    both = one | other
    assert covers(both, channel) == (covers(one, channel) or covers(other, channel))
    assert both.all_events == (one.all_events or other.all_events)
    added = other.minus(one)
    assert covers(one | added, channel) == covers(both, channel)
    assert one.minus(one) == NOTHING
    if added.all_channels is other.all_channels is False:
        assert not (covers(added, channel) and covers(one, channel))
