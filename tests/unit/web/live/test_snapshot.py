"""Snapshots of the live page: changes between two of them, and rates."""

import itertools
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.observe.queries import SessionSummary
from rta_supervisor.web.live import snapshot
from rta_supervisor.web.live.snapshot import DeploymentSummary, Rates, Snapshot
from rta_wire.session import State


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
