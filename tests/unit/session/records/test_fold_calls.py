"""Reports cut into calls: each of them once, in order, and no call about too much."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.session.records import fold_calls
from rta_wire.control.totals import Totals

SIZES = st.lists(st.one_of(st.integers(0, 5), st.integers(0, 3 * fold_calls.CALL_UNITS)), max_size=60)


@given(sizes=SIZES, max_sessions=st.sampled_from([1, 7, 50]))
def test_every_unit_is_in_one_call_and_no_call_is_large(sizes: list[int], max_sessions: int) -> None:
    """A session without units, of which only a heartbeat came, is in a call too."""
    reports = {
        (f"run-{number}", number): {f"u{unit}": Totals(unit) for unit in range(size)}
        for number, size in enumerate(sizes)
    }
    parts = fold_calls.split(reports)
    calls = list(fold_calls.group(parts, max_sessions))
    assert [part for call in calls for part in call] == parts
    assert all(1 <= len(call) <= max_sessions for call in calls)
    assert all(sum(len(units) for _, units in call) <= fold_calls.CALL_UNITS for call in calls)
    joined: dict[tuple[str, int], dict[str, Totals]] = {}
    for key, units in parts:
        assert not joined.setdefault(key, {}).keys() & units.keys()
        joined[key].update(units)
    assert joined == reports
    assert list(joined) == list(reports)
