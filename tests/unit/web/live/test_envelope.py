"""The envelope of a plot: lowest and highest values per step of time."""

from collections import defaultdict
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.web.live.envelope import Envelope

STEP_NS = 10
STEPS = 8

additions = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.lists(st.tuples(st.integers(0, 400), st.floats(-1e300, 1e300) | st.just(float("nan"))), max_size=20),
        st.booleans(),
    ),
    max_size=12,
)


@given(additions)
def test_a_plot_shows_the_lowest_and_highest(added: list[tuple[int, list[tuple[int, float]], bool]]) -> None:
    """Whatever the order of samples and updates, a page that applies all updates has what a plain minimum and maximum
    give."""
    envelope = Envelope(STEPS, STEP_NS)
    expected: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    page: dict[int, dict[int, tuple[float, float]]] = defaultdict(dict)
    last = None
    for channel, samples, is_update_sent in added:
        envelope.add(channel, np.array([t for t, _ in samples], np.int64), np.array([v for _, v in samples]))
        finite = [(t // STEP_NS, v) for t, v in samples if np.isfinite(v)]
        if finite:
            last = max([number for number, _ in finite] + ([] if last is None else [last]))
            for number, value in finite:
                if number > last - STEPS:
                    expected[channel][number].append(value)
        if is_update_sent:
            apply_changes(envelope, page)
    apply_changes(envelope, page)
    assert envelope.last == last
    for channel in (1, 2, 3):
        shown = {number: pair for number, pair in page[channel].items() if last is not None and number > last - STEPS}
        wanted = {
            number: (min(values), max(values))
            for number, values in expected[channel].items()
            if last is not None and number > last - STEPS
        }
        assert shown == wanted
    assert envelope.changed_steps() == {}


def apply_changes(envelope: Envelope, page: dict[int, dict[int, tuple[float, float]]]) -> None:
    for channel, steps in envelope.changed_steps().items():
        page[int(channel)].update(zip(steps["at"], zip(steps["low"], steps["high"], strict=True), strict=True))


@given(hnp.arrays(np.int64, 30, elements=st.integers(-(2**62), 2**62)))
def test_any_times_fit_into_the_window(times: Any) -> None:
    """Times before 1970, far ahead and in any order: never more steps than the window has."""
    envelope = Envelope(STEPS, STEP_NS)
    envelope.add(1, times, np.arange(30.0))
    steps = envelope.changed_steps()["1"]
    assert 1 <= len(steps["at"]) <= STEPS
    assert max(steps["at"]) == times.max() // STEP_NS
