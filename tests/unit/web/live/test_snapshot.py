"""Snapshots of the live page: changes between two of them, and rates."""

import itertools
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.observe.summaries import SessionSummary
from rta_supervisor.web.live import snapshot
from rta_supervisor.web.live.snapshot import DeploymentSummary, SampleRates, Snapshot
from rta_wire.session import State


def session(identity: str, samples: int) -> SessionSummary:
    return SessionSummary(identity, State.OPEN, "s", 1, "p", 1, 2, samples, samples, 0, 0, None, 2**62, False)


samples_by_identity = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 100), max_size=5)


@given(st.lists(samples_by_identity, min_size=2, max_size=6))
def test_changes_lead_from_one_snapshot_to_the_next(counts: list[dict[str, int]]) -> None:
    """A page that applies every change has what a page that connects now gets whole."""
    snapshots = take_snapshots(counts)
    first = as_json(snapshot.full_update(snapshots[0], {}, []))
    rows = {row["identity"]: row for row in first["sessions"]}
    rest = first["rest"]
    for before, after in itertools.pairwise(snapshots):
        change = as_json(snapshot.delta_update(before, after, []))
        rows.update({row["identity"]: row for row in change.get("changed", [])})
        for identity in change.get("gone", []):
            del rows[identity]
        rest = change.get("rest", rest)
    last = as_json(snapshot.full_update(snapshots[-1], {}, []))
    assert rows == {row["identity"]: row for row in last["sessions"]}
    assert rest == last["rest"]


def take_snapshots(counts: list[dict[str, int]]) -> list[Snapshot]:
    """A snapshot each second with sessions that have so many samples."""
    sample_rates = SampleRates()
    snapshots = []
    for number, samples in enumerate(counts, 1):
        sessions = [session(identity, count) for identity, count in samples.items()]
        rates = sample_rates.update(sessions, number * 1000)
        rows = {each.identity: snapshot.session_row(each, rates[each.identity], "") for each in sessions}
        summary = DeploymentSummary("n", "v", "", total_sessions=len(rows))
        snapshots.append(Snapshot(number, number * 1000, rows, summary, 0))
    return snapshots


def as_json(update: dict[str, Any]) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(update))
    return decoded


def test_rates_are_per_second_and_forget_a_pause() -> None:
    """Twice as long gives half the rate; a long pause starts anew; totals that go back are no rate."""
    rates = SampleRates()
    assert rates.update([session("a", 1000)], 0) == {"a": 0.0}
    assert rates.update([session("a", 1100)], 1000) == {"a": 100.0}
    assert rates.update([session("a", 1300), session("b", 5)], 3000) == {"a": 100.0, "b": 0.0}
    assert rates.update([session("a", 0), session("b", 5)], 4000) == {"a": 0.0, "b": 0.0}
    assert rates.history() == {"a": [0.0, 100.0, 100.0, 0.0]}
    assert rates.update([session("a", 9000)], 60_000) == {"a": 0.0}
    assert rates.history() == {}
