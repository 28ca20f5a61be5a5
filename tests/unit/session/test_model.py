"""Replies of Redis about sessions as values."""

import msgspec

from rta_supervisor.session import model
from rta_supervisor.session.model import FoldOutcome, FoldResult, SessionRecord, SessionRef
from rta_wire.control.totals import Totals
from rta_wire.session import State

REF = SessionRef("run", "rig", 7)
VALUES = {"streamSessionId": b"7", "streamName": b"rig", "state": b"waiting", "principal": b"p", "version": b"4"}
VALUES["openedMs"] = b"1000"


def values_of(fields: dict[str, bytes], *more: bytes | None) -> list[bytes | None]:
    """What Redis replies to HMGET."""
    return [*(fields.get(name) for name in model.RECORD_FIELDS), *more]


def test_a_record_of_a_new_session() -> None:
    """What is not there yet has its default."""
    expected = SessionRecord(REF, State.WAITING, "p", version=4, opened_ms=1000, document=b"{}")
    assert model.parse_record("run", values_of(VALUES), b"{}") == expected
    assert model.parse_record("run", values_of(VALUES), None) == msgspec.structs.replace(expected, document=b"")
    assert model.parse_record("run", values_of({}), None) is None


def test_a_record_with_everything() -> None:
    """Of the properties that were asked for it has those that were updated."""
    more = {"totals": b"2 20 200 100 -5 9", "lost": b"1", "units": b"12", "properties": b"3", "spoilt": b"marks: gone"}
    record = model.parse_record("run", values_of(VALUES | more, b"5-0", None), b"{}", ["group", "state"])
    assert record is not None
    assert record.totals == Totals(2, 20, 200, 100, -5, 9)
    assert record.lost_data
    assert (record.unit_count, record.property_count, record.spoilt) == (12, 3, "marks: gone")
    assert record.property_entry_ids == {"group": "5-0"}


def test_the_results_of_several_folds_of_a_session() -> None:
    """One call of them changed it, and what each left out is left out."""
    parts = [
        FoldResult(REF, FoldOutcome.SAME, ("a",)),
        FoldResult(REF, FoldOutcome.CHANGED, (), ("b",)),
        FoldResult(REF, FoldOutcome.SAME, ("c",), ("d",)),
    ]
    assert model.join_fold_results(parts) == FoldResult(REF, FoldOutcome.CHANGED, ("a", "c"), ("b", "d"))
    assert model.join_fold_results(parts[:1]) == parts[0]


def test_the_outcome_of_a_fold() -> None:
    """The names are units that are implausible, or the owner of a foreign session."""
    assert model.parse_fold_result(REF, FoldOutcome.CHANGED, []) == FoldResult(REF, FoldOutcome.CHANGED)
    implausible = model.parse_fold_result(REF, FoldOutcome.SAME, [b"u", b"v"])
    assert (implausible.implausible_units, implausible.owner) == (("u", "v"), "")
    surplus = model.parse_fold_result(REF, FoldOutcome.SAME, [], [b"w"])
    assert (surplus.implausible_units, surplus.surplus_units) == ((), ("w",))
    foreign = model.parse_fold_result(REF, FoldOutcome.FOREIGN, [b"alice"])
    assert (foreign.implausible_units, foreign.owner) == ((), "alice")
    assert {outcome for outcome in FoldOutcome if outcome.is_accepted} == {FoldOutcome.CHANGED, FoldOutcome.SAME}
