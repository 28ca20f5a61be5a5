"""What an exactly-once appender decides, without a server."""

import itertools

import pytest

from rta_wire.control.totals import EVERY_ROW, Mark, Totals
from rta_writers.control.session_resolver import GATE_OPEN
from rta_writers.write import fingerprint
from rta_writers.write.delivery import appender
from rta_writers.write.delivery.append_state import (
    TRANSITIONS,
    AppendEvent,
    AppendState,
    GroupDecision,
    WatchedUnit,
    decide,
)

EPOCH = 3
BEFORE = 2**64 - 5
GROUP = appender.RowGroup(10, lambda _: (), lambda rows: 7 * rows)
"""Ten rows, the fifth of the epoch and those that follow, that add 7 each to the fingerprint."""


def unit(rows: int, stored: int | None = None, gate: bytes | None = GATE_OPEN) -> WatchedUnit:
    return WatchedUnit(gate, Mark(EPOCH, rows), rows, stored)


@pytest.mark.parametrize(
    ("rows", "decision"),
    [
        (0, GroupDecision.REFUSE_GAP),
        (3, GroupDecision.REFUSE_GAP),
        (4, GroupDecision.SEND),
        (9, GroupDecision.SEND),
        (13, GroupDecision.SEND),
        (14, GroupDecision.FINISH),
        (20, GroupDecision.FINISH),
        (EVERY_ROW, GroupDecision.FINISH),
    ],
)
def test_the_mark_says_what_is_missing(rows: int, decision: GroupDecision) -> None:
    """Rows before the group have to be there; of its own rows those that are missing are sent."""
    assert decide(unit(rows), GROUP, 4, 0) is decision


@pytest.mark.parametrize("gate", [b"sealed", None])
def test_a_closed_session_takes_nothing_but_what_it_has(gate: bytes | None) -> None:
    """A retry whose rows are all there succeeds; one with anything left to send is refused, a gap or not."""
    assert decide(unit(14, gate=gate), GROUP, 4, 0) is GroupDecision.FINISH
    for rows in (0, 4, 13):
        assert decide(unit(rows, gate=gate), GROUP, 4, 0) is GroupDecision.REFUSE_CLOSED


def test_rows_that_are_there_have_to_be_the_same() -> None:
    """Compared where some of the group's rows are there, and no row after it: else there is nothing to compare with."""
    for rows in (5, 14):
        ours = (BEFORE + 7 * (rows - 4)) & fingerprint.BITS
        expected = GroupDecision.FINISH if rows == 14 else GroupDecision.SEND
        assert decide(unit(rows, ours), GROUP, 4, BEFORE) is expected
        assert decide(unit(rows, ours + 1), GROUP, 4, BEFORE) is GroupDecision.REFUSE_CHANGED
        assert decide(unit(rows, ours + 1, gate=None), GROUP, 4, BEFORE) is GroupDecision.REFUSE_CHANGED
    assert decide(unit(4, 1), GROUP, 4, BEFORE) is GroupDecision.SEND
    assert decide(unit(15, 1), GROUP, 4, BEFORE) is GroupDecision.FINISH


def test_replies_are_read_as_of_an_epoch() -> None:
    """An earlier epoch has every row, a later one has none, and a fingerprint counts for its own epoch only."""
    totals = Totals(2, 8, 9, 9, 1, 5)
    mark = Mark(EPOCH, 8, totals)
    replies = [b"OK", b"open", mark.text().encode(), f"{EPOCH} 8 77".encode()]
    assert WatchedUnit.from_replies(replies, EPOCH) == WatchedUnit(b"open", mark, 8, 77)
    assert WatchedUnit.from_replies(replies, EPOCH - 1) == WatchedUnit(b"open", mark, EVERY_ROW, None)
    assert WatchedUnit.from_replies(replies, EPOCH + 1) == WatchedUnit(b"open", mark, 0, None)
    assert WatchedUnit.from_replies([b"OK", None, None, None], EPOCH) == WatchedUnit(None, Mark(), 0, None)


@pytest.mark.parametrize("stored", [77, None])
def test_a_unit_has_the_texts_that_it_is_read_from(stored: int | None) -> None:
    """With and without a fingerprint; the mark of no rows at all is read as that."""
    for mark in (Mark(EPOCH, 8, Totals(2, 8, 9, 9, 1, 5)), Mark()):
        unit = WatchedUnit(b"open", mark, mark.rows_done(mark.epoch), stored)
        assert WatchedUnit.from_replies([b"OK", b"open", *unit.texts()], mark.epoch) == unit


def test_a_lost_connection_forgets_everything() -> None:
    """Whatever was known or under way: the mark is read again before anything is sent."""
    for state in AppendState:
        assert TRANSITIONS[state, AppendEvent.CONNECTION_CLOSED] is AppendState.UNREAD


def test_nothing_is_sent_but_from_a_mark_that_is_watched() -> None:
    """Only one pair of state and event for each step; no transaction behind another one."""
    assert [pair for pair in TRANSITIONS if pair[1] is not AppendEvent.CONNECTION_CLOSED] == [
        (AppendState.UNREAD, AppendEvent.MARK_READ),
        (AppendState.WATCHED, AppendEvent.TRANSACTION_SENT),
        (AppendState.SENT, AppendEvent.REPLIES_READ),
    ]
    assert set(TRANSITIONS) < set(itertools.product(AppendState, AppendEvent))
