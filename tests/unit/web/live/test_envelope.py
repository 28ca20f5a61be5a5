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

chunks = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.lists(st.tuples(st.integers(0, 400), st.floats(-1e300, 1e300) | st.just(float("nan"))), max_size=20),
        st.booleans(),
    ),
    max_size=12,
)


@given(chunks)
def test_a_plot_shows_the_lowest_and_highest(story: list[tuple[int, list[tuple[int, float]], bool]]) -> None:
    """Whatever the order of samples and looks, a page that keeps what it is told sees what a plain count gives."""
    envelope = Envelope(STEPS, STEP_NS)
    right: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    page: dict[int, dict[int, tuple[float, float]]] = defaultdict(dict)
    last = None
    for channel, samples, is_looked_at in story:
        envelope.add(channel, np.array([t for t, _ in samples], np.int64), np.array([v for _, v in samples]))
        good = [(t // STEP_NS, v) for t, v in samples if np.isfinite(v)]
        if good:
            last = max([number for number, _ in good] + ([] if last is None else [last]))
            for number, value in good:
                if number > last - STEPS:
                    right[channel][number].append(value)
        if is_looked_at:
            take(envelope, page)
    take(envelope, page)
    assert envelope.last == last
    for channel in (1, 2, 3):
        seen = {number: pair for number, pair in page[channel].items() if last is not None and number > last - STEPS}
        wanted = {
            number: (min(values), max(values))
            for number, values in right[channel].items()
            if last is not None and number > last - STEPS
        }
        assert seen == wanted
    assert envelope.changed_steps() == {}


def take(envelope: Envelope, page: dict[int, dict[int, tuple[float, float]]]) -> None:
    for channel, found in envelope.changed_steps().items():
        page[int(channel)].update(zip(found["at"], zip(found["low"], found["high"], strict=True), strict=True))


@given(hnp.arrays(np.int64, 30, elements=st.integers(-(2**62), 2**62)))
def test_times_of_all_kinds_do_no_harm(times: Any) -> None:
    """Before 1970, far ahead, in any order: memory stays as it is."""
    envelope = Envelope(STEPS, STEP_NS)
    envelope.add(1, times, np.arange(30.0))
    found = envelope.changed_steps()["1"]
    assert 1 <= len(found["at"]) <= STEPS
    assert max(found["at"]) == times.max() // STEP_NS
