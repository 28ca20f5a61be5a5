"""The Lua functions against a model of them in Python, on a real server."""

from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from rta_supervisor.retention import server_functions as retention_functions
from rta_supervisor.session import server_functions as session_functions
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_wire import keys
from rta_wire.codec import encode
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State
from tests.support.session_values import session_record

NAMES = keys.Keys()
MANY = 10_000
RECORD = session_record()

times = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**48)


@st.composite
def chains(draw: st.DrawFn) -> list[tuple[str, Totals]]:
    """Reports of a few units, each unit's counts growing from one to the next."""
    reports = []
    for unit in draw(st.sets(st.sampled_from(["a", "b/1", "c d"]), min_size=1)):
        totals = Totals()
        for _ in range(draw(st.integers(1, 3))):
            counts_ = [draw(counts) for _ in range(4)]
            time_range = draw(st.none() | st.tuples(times, times).map(sorted))
            growth = Totals(*counts_, *(time_range or (None, None)))
            totals = totals.sum_of(growth)
            reports.append((unit, totals))
    return reports


def open_session(client: redis.Redis, identity: str = "run", number: int = 1) -> list[Any]:
    record = session_record(identity, stream_session_id=number)
    call = session_functions.open_session(NAMES, record, position="0-0", now_ms=1, ttl_s=100)
    answer: list[Any] = client.execute_command(*call)
    return answer


def put_json(document: bytes, state: State, *, identity: str = "run", version: int = 1, ttl_s: int = 50) -> Any:
    record = session_record(identity, version=version)
    return session_functions.put_json(NAMES, record, document, state, now_ms=5, ttl_s=ttl_s)


def versioned(version: int) -> SessionRecord:
    return session_record(version=version)


def model(reports: list[tuple[str, Totals]]) -> Totals:
    """What a session should come to, by the one-line rule of each field."""
    units: dict[str, Totals] = {}
    for unit, value in reports:
        units[unit] = units.get(unit, Totals()).max_of(value)
    everything = Totals()
    for value in units.values():
        everything = everything.sum_of(value)
    return everything


def folded(client: redis.Redis) -> Totals:
    return Totals.from_strings(client.execute_command("HGET", NAMES.session_state("run"), "totals").decode().split())


def fold(
    client: redis.Redis, units: dict[str, Totals], *, identity: str = "run", number: int = 1, max_units: int = MANY
) -> list[Any]:
    [answer] = client.execute_command(
        *session_functions.fold(NAMES, [((identity, number), units)], max_units=max_units)
    )
    result: list[Any] = answer
    return result


@settings(max_examples=150, deadline=None)
@given(reports=chains(), order=st.randoms(use_true_random=False))
def test_reports_fold_the_same_in_any_order_and_number(
    raw: redis.Redis, reports: list[tuple[str, Totals]], order: Any
) -> None:
    """Shuffled and repeated reports give what the model gives for them in order, to the last nanosecond."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    shuffled = [*reports, *order.choices(reports, k=2)]
    order.shuffle(shuffled)
    for unit, value in shuffled:
        assert fold(raw, {unit: value})[2] == []
    assert folded(raw) == model(reports)


def test_a_report_that_is_ahead_and_behind_is_left_out(raw: redis.Redis) -> None:
    """More bursts and fewer samples can't be: a maximum can't be undone, so it changes nothing."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    fold(raw, {"u": Totals(5, 50, 500, 50, 10, 20)})
    wrong = {"u": Totals(6, 49, 600, 60, 1, 99), "v": Totals(1, 1, 1, 1, 15, 16)}
    assert fold(raw, wrong) == [b"changed", b"rig", [b"u"], [], 1, 1, 1, 1]
    assert folded(raw) == Totals(6, 51, 501, 51, 10, 20)


def test_a_jump_that_nobody_counts_is_left_out(raw: redis.Redis) -> None:
    """A petabyte at a time and no more: sums stay whole numbers."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    assert fold(raw, {"u": Totals(1, 1, 2**50 + 1, 1, 5, 9)}) == [b"same", b"rig", [b"u"], []]
    assert raw.execute_command("HEXISTS", NAMES.session_state("run"), "totals") == 0
    assert fold(raw, {"u": Totals(1, 1, 2**50, 1, 5, 9)}) == [b"changed", b"rig", [], [], 1, 1, 2**50, 1]
    assert folded(raw) == Totals(1, 1, 2**50, 1, 5, 9)


def test_more_in_all_than_is_counted_exactly_is_left_out(raw: redis.Redis) -> None:
    """Each unit alone is plausible: those of which the session's sums would leave the whole numbers are left out."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    units = {f"u{number}": Totals(1, 2**50, 1, 1, 5, 9) for number in range(10)}
    answer = fold(raw, units)
    assert answer[:3] == [b"changed", b"rig", [b"u8", b"u9"]]
    assert folded(raw) == Totals(8, 2**53, 8, 8, 5, 9)
    assert fold(raw, {"u0": Totals(2, 2**50 + 1, 2, 2, 5, 9)})[2] == [b"u0"]
    assert fold(raw, {"u0": Totals(2, 2**50, 2, 2, 5, 9)})[0] == b"changed"


def test_reports_of_several_sessions_fold_at_once(raw: redis.Redis) -> None:
    """Each into its own, and what is wrong with one is no other's matter."""
    raw.execute_command("FLUSHALL")
    for identity, number in (("run", 1), ("other", 2), ("over", 3)):
        open_session(raw, identity, number)
    raw.execute_command(*put_json(b"new", State.CLOSED, identity="over"))
    small, large = Totals(1, 2, 3, 4, 5, 6), Totals(7, 8, 9, 10, -11, 12)
    reports = [
        (("gone", 9), {"u": small}),
        (("run", 1), {"u": small, "v": large}),
        (("over", 3), {"u": small}),
        (("other", 2), {"u": large}),
    ]
    unknown, closed = [b"unknown", b"", [], []], [b"closed", b"rig", [], []]
    by_owner = [unknown, [b"changed", b"rig", [], [], 8, 10, 12, 14], closed, [b"changed", b"rig", [], [], 7, 8, 9, 10]]
    assert raw.execute_command(*session_functions.fold(NAMES, reports, max_units=MANY, principal="p")) == by_owner
    foreign = [b"foreign", b"rig", [b"p"], []]
    by_another = raw.execute_command(*session_functions.fold(NAMES, reports, max_units=MANY, principal="q"))
    assert by_another == [unknown, foreign, foreign, foreign]
    assert folded(raw) == small.sum_of(large)
    assert raw.execute_command("HGET", NAMES.session_state("other"), "totals") == b"7 8 9 10 -11 12"
    assert raw.execute_command("EXISTS", NAMES.session_state("gone")) == 0


def test_opening_twice_keeps_the_first(raw: redis.Redis) -> None:
    """The second gets what stands there."""
    raw.execute_command("FLUSHALL")
    assert open_session(raw) == [1, b"1", b"rig", b"p", b"open"]
    assert open_session(raw, number=2) == [0, b"1", b"rig", b"p", b"open"]


def test_a_report_of_another_session_is_unknown(raw: redis.Redis) -> None:
    """An id that is not the session's changes nothing."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    before = raw.execute_command("HGETALL", NAMES.session_state("run"))
    assert fold(raw, {"u": Totals(1, 1, 1, 1, 1, 1)}, identity="run", number=2) == [b"unknown", b"", [], []]
    assert fold(raw, {"u": Totals(1)}, identity="gone", number=1) == [b"unknown", b"", [], []]
    assert raw.execute_command("HGETALL", NAMES.session_state("run")) == before


def test_a_refresh_shows_what_was_folded(raw: redis.Redis) -> None:
    """Of several sessions at once, each as it stands; nothing of one that is closed, gone, or of another number."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    open_session(raw, "other", 2)
    refresh = session_functions.refresh(
        NAMES,
        [
            (SessionRef("run", "rig", 1), 100),
            (SessionRef("gone", "rig", 3), 100),
            (SessionRef("other", "rig", 2), 5000),
            (SessionRef("other", "rig", 9), 100),
        ],
    )
    nothing = b"0 0 0 0 - -"
    assert raw.execute_command(*refresh) == [nothing, b"", nothing, b""]
    fold(raw, {"u": Totals(1, 1, 1, 1, 5, 9)})
    fold(raw, {"v": Totals(1, 1, 1, 1, 6, 10)})
    assert raw.execute_command(*refresh) == [b"2 2 2 2 5 10", b"", nothing, b""]
    assert raw.execute_command("HMGET", NAMES.session("run"), "tStart", "tEnd") == [b"5", b"10"]
    assert raw.execute_command("HEXISTS", NAMES.session("other"), "tStart") == 0
    assert raw.execute_command("TTL", NAMES.session("run")) <= 100
    assert raw.execute_command("TTL", NAMES.session_state("other")) > 4000
    assert raw.execute_command("EXISTS", NAMES.session("gone"), NAMES.session_state("gone")) == 0


def test_ranges_of_a_stream_go_out_together(raw: redis.Redis) -> None:
    """Each once; a key that a writer spoilt is an error of that session and of no other."""
    raw.execute_command("FLUSHALL")
    for number in (1, 2, 3):
        raw.execute_command(
            *session_functions.publish_opening(NAMES, session_record(stream_session_id=number), ttl_s=100)
        )
    raw.execute_command("DEL", NAMES.published("rig", 2))
    raw.execute_command("HSET", NAMES.published("rig", 2), "spoilt", 1)
    raw.execute_command("EXPIRE", NAMES.published("rig", 2), 100)
    publish = session_functions.publish_time_ranges(
        NAMES, "rig", [(number, b"5", b"%d" % (10 + number)) for number in (1, 2, 3, 4)], ttl_s=100
    )
    first, spoilt, third, unknown = raw.execute_command(*publish)
    assert (first, third, unknown) == (1, 1, 0)
    assert "WRONGTYPE" in str(spoilt)
    assert [raw.execute_command("GET", NAMES.published("rig", number)) for number in (1, 3)] == [b"1 5 11", b"1 5 13"]
    *_, first_entry, third_entry = raw.execute_command("XRANGE", "stream:rig", "-", "+")
    assert first_entry[1] == [b"id", b"1", b"data", encode.time_range(5, 11)]
    assert third_entry[1] == [b"id", b"3", b"data", encode.time_range(5, 13)]
    assert raw.execute_command("XLEN", "stream:rig") == 5
    again = raw.execute_command(*publish)
    assert [again[0], again[2], again[3]] == [0, 0, 0]
    assert raw.execute_command("XLEN", "stream:rig") == 5


def test_json_is_changed_only_by_who_saw_the_latest(raw: redis.Redis) -> None:
    """A stale version changes nothing; after closing nothing is folded or refreshed any more."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    assert raw.execute_command(*put_json(b"new", State.CLOSED)) == 1
    assert raw.execute_command(*put_json(b"stale", State.OPEN)) == 0
    assert raw.execute_command("HGET", NAMES.session("run"), "json") == b"new"
    assert fold(raw, {"u": Totals(1)}) == [b"closed", b"rig", [], []]
    assert raw.execute_command(*session_functions.refresh(NAMES, [(RECORD.ref, 100)])) == [b""]


def test_a_loss_is_noted_of_the_session_that_had_it(raw: redis.Redis) -> None:
    """Another session of that name, or one that is gone, gets nothing."""
    raw.execute_command("FLUSHALL")
    assert raw.execute_command(*session_functions.note(NAMES, RECORD.ref, "lost", 1)) == 0
    assert raw.execute_command("KEYS", "*") == []
    open_session(raw)
    assert raw.execute_command(*session_functions.note(NAMES, session_record(stream_session_id=2).ref, "lost", 1)) == 0
    assert raw.execute_command("HEXISTS", NAMES.session_state("run"), "lost") == 0
    assert raw.execute_command(*session_functions.note(NAMES, RECORD.ref, "lost", 1)) == 1
    assert raw.execute_command("HEXISTS", NAMES.session_state("run"), "lost") == 1


def put_away(raw: redis.Redis, version: int, *, unarchived_ttl_s: int = 0) -> list[bytes]:
    outcome: list[bytes] = raw.execute_command(
        *retention_functions.release_closed(NAMES, "run", version, ttl_s=5, unarchived_ttl_s=unarchived_ttl_s)
    )
    return outcome


def archived(raw: redis.Redis, version: int, number: int = 1) -> bytes:
    note = control_pb2.NoteArchived(identity="run", stream_session_id=number, version=version, checksum="c" * 64)
    outcome: bytes = raw.execute_command(*retention_functions.mark_archived(NAMES, note, ttl_s=5))
    return outcome


def test_only_what_is_safe_and_closed_is_let_go(raw: redis.Redis) -> None:
    """An open session, or one that changed since it was saved, keeps its lifetime."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    assert put_away(raw, 1) == [b"changed", b""]
    raw.execute_command(*put_json(b"new", State.CLOSED, ttl_s=500))
    assert put_away(raw, 1) == [b"changed", b""]
    assert raw.execute_command("TTL", NAMES.session("run")) > 5
    assert put_away(raw, 2)[0] == b"free"
    assert raw.execute_command("TTL", NAMES.session("run")) <= 5


def test_a_session_that_the_archive_has_to_have_is_let_go_once_it_has_it(raw: redis.Redis) -> None:
    """Held until it is marked; marked for the version that was archived, and never while it is open."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    assert archived(raw, 1) == b"open"
    raw.execute_command(*put_json(b"new", State.CLOSED, ttl_s=500))
    assert put_away(raw, 2, unarchived_ttl_s=400)[0] == b"held"
    assert 5 < raw.execute_command("TTL", NAMES.session("run")) <= 400
    assert archived(raw, 1) == b"changed"
    assert archived(raw, 2, number=2) == b"unknown"
    assert not raw.execute_command("HEXISTS", NAMES.session_state("run"), "archived")
    assert archived(raw, 2) == archived(raw, 2) == b"marked"
    assert raw.execute_command("TTL", NAMES.session("run")) <= 5
    for key in (NAMES.session("run"), NAMES.session_state("run")):
        raw.execute_command("EXPIRE", key, 3)
    assert archived(raw, 2) == b"marked"
    assert raw.execute_command("TTL", NAMES.session_state("run")) <= 3, "a mark makes no life longer"
    assert put_away(raw, 2, unarchived_ttl_s=400)[0] == b"archived"
    raw.execute_command(*put_json(b"newer", State.CLOSED, version=2, ttl_s=500))
    assert put_away(raw, 3, unarchived_ttl_s=400)[0] == b"stale"
    assert raw.execute_command(*retention_functions.extend_unarchived(NAMES, "run", 2, ttl_s=300)) == 0
    assert raw.execute_command(*retention_functions.extend_unarchived(NAMES, "run", 1, ttl_s=300)) == 1
    assert 5 < raw.execute_command("TTL", NAMES.session_state("run")) <= 300


@pytest.mark.parametrize(("before", "floor", "after"), [(None, 0, b"0"), (None, 7, b"7"), (9, 7, b"9"), (9, 10, b"10")])
def test_ids_are_raised_and_never_lowered(raw: redis.Redis, before: int | None, floor: int, after: bytes) -> None:
    """Whatever was lost, the next id is higher than every one that was seen."""
    raw.execute_command("FLUSHALL")
    if before is not None:
        raw.execute_command("SET", "lastStreamSessionId", before)
    assert raw.execute_command(*session_functions.raise_floor(floor)) == after


def test_first_and_last_entries_are_written_once(raw: redis.Redis) -> None:
    """Repeating a step after a crash adds no second entry, and the gate only ever closes."""
    raw.execute_command("FLUSHALL")
    gate = NAMES.gate("rig", 1)
    for _ in range(2):
        raw.execute_command(*session_functions.publish_opening(NAMES, RECORD, ttl_s=100))
    assert raw.execute_command("GET", gate) == b"open"
    raw.execute_command(*session_functions.seal(NAMES, RECORD.ref, ttl_s=100))
    assert raw.execute_command("GET", gate) == b"sealed"
    for _ in range(2):
        raw.execute_command(*session_functions.publish_end(NAMES, RECORD, ttl_s=100))
    raw.execute_command(*session_functions.seal(NAMES, RECORD.ref, ttl_s=100))
    raw.execute_command(*session_functions.publish_opening(NAMES, RECORD, ttl_s=100))
    assert raw.execute_command("GET", gate) == b"finished"
    assert raw.execute_command("XLEN", "stream:rig") == 2


def test_what_was_told_stays_told(raw: redis.Redis) -> None:
    """New JSON forgets neither the time range nor the end; what is left of a session after its end goes in time."""
    raw.execute_command("FLUSHALL")
    gate, published, marks = NAMES.gate("rig", 1), NAMES.published("rig", 1), NAMES.marks("rig", 1)
    raw.execute_command(*session_functions.publish_opening(NAMES, RECORD, ttl_s=100))
    publish_range = session_functions.publish_time_ranges(NAMES, "rig", [(1, b"5", b"10")], ttl_s=100)
    assert raw.execute_command(*publish_range) == [1]
    assert raw.execute_command(*session_functions.publish_json(NAMES, versioned(2), ttl_s=900)) != b""
    assert raw.execute_command("GET", published) == b"2 5 10"
    assert raw.execute_command(*publish_range) == [0]
    assert raw.execute_command("TTL", gate) <= 100, "writers watch it"
    raw.execute_command("HSET", marks, "u", "mark")
    raw.execute_command(*session_functions.publish_end(NAMES, versioned(3), ttl_s=200))
    assert [100 < raw.execute_command("TTL", key) <= 200 for key in (gate, published, marks)] == [True] * 3
    assert raw.execute_command(*session_functions.publish_json(NAMES, versioned(4), ttl_s=900)) != b""
    assert raw.execute_command("GET", published) == b"4 5 10 over"
    assert [raw.execute_command("TTL", key) > 200 for key in (gate, published)] == [True, True]
    assert raw.execute_command(*session_functions.publish_time_ranges(NAMES, "rig", [(1, b"1", b"99")], ttl_s=100)) == [
        0
    ]
    assert raw.execute_command("XLEN", "stream:rig") == 5


def test_the_gate_of_a_long_session_is_kept(raw: redis.Redis) -> None:
    """It is renewed once less than half of its life is left, and left alone before."""
    raw.execute_command("FLUSHALL")
    raw.execute_command(*session_functions.publish_opening(NAMES, RECORD, ttl_s=100))
    assert raw.execute_command(*session_functions.extend_gate(NAMES, RECORD.ref, ttl_s=100)) == 0
    assert raw.execute_command(*session_functions.extend_gate(NAMES, RECORD.ref, ttl_s=1000)) == 1
    assert raw.execute_command("TTL", NAMES.published("rig", 1)) > 900
    assert raw.execute_command("TTL", NAMES.gate("rig", 1)) > 900


def test_a_session_of_many_units_is_folded_whole(raw: redis.Redis) -> None:
    """More units than one call of Redis from Lua has room for."""
    raw.execute_command("FLUSHALL")
    open_session(raw)
    for step in (1, 2):
        units = {f"unit-{number}": Totals(step, step, step, step, number, number) for number in range(5000)}
        fold(raw, units)
    assert folded(raw) == Totals(10_000, 10_000, 10_000, 10_000, 0, 4999)
    assert raw.execute_command("HGET", NAMES.session_state("run"), "u:unit-4999") == b"2 2 2 2 4999 4999"
