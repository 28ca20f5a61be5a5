"""What the live page is made of: steps of a plot, changes between two looks, rates, settings of a plot."""

import itertools
from collections import defaultdict
from typing import Any

import hypothesis.extra.numpy as hnp
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.diagnostics.recent_events import KEPT, RecentEvents
from rta_supervisor.http import limits as http_limits
from rta_supervisor.observe.queries import SessionSummary
from rta_supervisor.web.live import plot, snapshot
from rta_supervisor.web.live.envelope import Envelope
from rta_supervisor.web.live.snapshot import DeploymentSummary, Rates, Snapshot
from rta_wire import errors
from rta_wire.session import State

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


def line(identity: str, samples: int, state: State = State.OPEN) -> SessionSummary:
    return SessionSummary(identity, state, "s", 1, "p", 1, 2, samples, samples, 0, 0, None, 2**62, False)


looks = st.lists(st.dictionaries(st.sampled_from("abcde"), st.integers(0, 100), max_size=5), min_size=2, max_size=6)


@given(looks)
def test_changes_lead_from_one_look_to_the_next(story: list[dict[str, int]]) -> None:
    """A page that applies every change has what a page that comes now gets whole."""
    rates = Rates()
    shots = []
    for number, samples in enumerate(story, 1):
        lines = [line(name, count) for name, count in samples.items()]
        found = rates.update(lines, number * 1000)
        rows = {one.identity: snapshot.row(one, found[one.identity]) for one in lines}
        shots.append(
            Snapshot(number, number * 1000, rows, DeploymentSummary("n", "v", "", total_sessions=len(rows)), 0)
        )
    page = as_json(snapshot.full_update(shots[0], {}, []))
    known = {one["identity"]: one for one in page["sessions"]}
    rest = page["rest"]
    for before, now in itertools.pairwise(shots):
        change = as_json(snapshot.delta_update(before, now, []))
        known.update({one["identity"]: one for one in change.get("changed", [])})
        for name in change.get("gone", []):
            del known[name]
        rest = change.get("rest", rest)
    last = as_json(snapshot.full_update(shots[-1], {}, []))
    assert sorted(known) == sorted(one["identity"] for one in last["sessions"])
    assert all(known[one["identity"]] == one for one in last["sessions"])
    assert rest == last["rest"]


def as_json(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return found


def test_rates_are_per_second_and_forget_a_pause() -> None:
    """Twice as long gives half of it; after nobody watched nothing is made up; totals that go back are no rate."""
    rates = Rates()
    assert rates.update([line("a", 1000)], 0) == {"a": 0.0}
    assert rates.update([line("a", 1100)], 1000) == {"a": 100.0}
    assert rates.update([line("a", 1300), line("b", 5)], 3000) == {"a": 100.0, "b": 0.0}
    assert rates.update([line("a", 0), line("b", 5)], 4000) == {"a": 0.0, "b": 0.0}
    assert rates.history() == {"a": [0.0, 100.0, 100.0, 0.0]}
    assert rates.update([line("a", 9000)], 60_000) == {"a": 0.0}
    assert rates.history() == {}


def test_recent_events_are_bounded_and_short() -> None:
    """The newest are kept, long texts are cut, and tracebacks stay in the log."""
    recent = RecentEvents()
    for number in range(KEPT + 5):
        recent(None, "", {"event": f"e{number}", "level": "info", "long": "x" * 1000, "exception": "trace"})
    kept = recent.after(0)
    assert (len(kept), kept[-1].event, len(kept[-1].facts["long"])) == (KEPT, f"e{KEPT + 4}", 300)
    assert "exception" not in kept[-1].facts
    assert recent.after(kept[-2].number) == kept[-1:]


@pytest.mark.parametrize(
    "query",
    [{"channels": "1,x"}, {"channels": "1,2,3,4,5,6,7,8,9"}, {"window_s": "0"}, {"window_s": "nan"}, {"type": "text"}],
)
def test_bad_wishes_are_refused(query: dict[str, str]) -> None:
    """With a sentence."""
    with pytest.raises(errors.Usage, match="plot"):
        plot.PlotRequest.parse(query)


def test_seats_come_back() -> None:
    """Also where the one who sat there fell over."""
    seats = http_limits.ConnectionLimit(1)
    with seats.slot():
        assert seats.is_reached
    with pytest.raises(ZeroDivisionError), seats.slot():
        _ = 1 / 0
    assert not seats.is_reached
