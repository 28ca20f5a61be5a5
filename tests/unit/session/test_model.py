"""Replies of Redis about sessions as values."""

from rta_supervisor.session import model
from rta_supervisor.session.model import FoldOutcome, FoldResult, SessionRecord, SessionRef
from rta_wire.control.totals import Totals
from rta_wire.session import State

REF = SessionRef("run", "rig", 7)
STATE_HASH = {
    b"streamSessionId": b"7",
    b"streamName": b"rig",
    b"state": b"waiting",
    b"principal": b"p",
    b"version": b"4",
    b"openedMs": b"1000",
}


def test_a_record_of_a_new_session() -> None:
    """What is not there yet has its default."""
    expected = SessionRecord(REF, State.WAITING, "p", version=4, opened_ms=1000, document=b"{}")
    assert model.parse_record("run", STATE_HASH, b"{}") == expected
    assert model.parse_record("run", STATE_HASH, None).document == b""


def test_a_record_with_everything() -> None:
    """Fields of units, properties and changes of state are told apart by their prefix."""
    more = {b"totals": b"2 20 200 100 -5 9", b"lost": b"1", b"u:a/1": b"2 20 200 100 -5 9"}
    prefixed = {b"p:group": b"5-0", b"p:state": b"6-1", b"t:3": b"waiting open 99", b"safe": b"3"}
    record = model.parse_record("run", {**STATE_HASH, **more, **prefixed}, b"{}")
    assert record.totals == Totals(2, 20, 200, 100, -5, 9)
    assert record.lost_data
    assert record.unit_totals == {"a/1": "2 20 200 100 -5 9"}
    assert record.property_entry_ids == {"group": "5-0", "state": "6-1"}
    assert record.unqueued_changes == {"3": "waiting open 99"}


def test_the_outcome_of_a_fold() -> None:
    """The names are units that are implausible, or the owner of a foreign session."""
    assert model.parse_fold_result(REF, FoldOutcome.CHANGED, []) == FoldResult(REF, FoldOutcome.CHANGED)
    implausible = model.parse_fold_result(REF, FoldOutcome.SAME, [b"u", b"v"])
    assert (implausible.implausible_units, implausible.owner) == (("u", "v"), "")
    foreign = model.parse_fold_result(REF, FoldOutcome.FOREIGN, [b"alice"])
    assert (foreign.implausible_units, foreign.owner) == ((), "alice")
    assert {outcome for outcome in FoldOutcome if outcome.is_accepted} == {FoldOutcome.CHANGED, FoldOutcome.SAME}
