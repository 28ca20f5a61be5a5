"""Many reports joined into few: the fast way says the same as the plain one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors
from rta_wire.control import messages
from rta_wire.control.report_merge import MergedReports
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2

EARLIEST_NS, LATEST_NS = 0, 100

counts = st.integers(0, 3)
times = st.integers(-2, 102)
names = st.sampled_from(["a", "b", "", "{", "x\n", "é"])
totals = st.builds(
    control_pb2.Totals,
    bursts=counts,
    samples=counts,
    raw_bytes=counts,
    stored_bytes=counts,
    start_time=st.none() | times,
    end_time=st.none() | times,
)
progress = st.builds(
    control_pb2.Progress, identity=names, stream_session_id=st.integers(1, 2), unit=names, totals=totals
)
heartbeat = st.builds(control_pb2.Heartbeat, identity=names, stream_session_id=st.integers(1, 2))
request = st.builds(control_pb2.CloseSession, request_id=st.just("r"), identity=st.just("a"), state=st.just("closed"))
raws = st.one_of(
    st.none(),
    st.binary(max_size=20),
    (progress | heartbeat | request).map(messages.pack),
    st.integers(0, 3).map(lambda version: control_pb2.Control(version=version).SerializeToString()),
    progress.map(lambda report: control_pb2.Control(version=2, progress=report).SerializeToString()),
)


@st.composite
def alike(draw: st.DrawFn) -> list[bytes]:
    """Reports of one unit that mostly grow, some of them with another byte, cut off, or longer than they should be."""
    numbers = [3, 3, 3, 3, 50, 50]
    made = []
    for _ in range(draw(st.integers(1, 8))):
        numbers = [max(0, number + draw(st.sampled_from([0, 0, 0, 1, -1]))) for number in numbers]
        body = Totals(*numbers).to_message()
        raw = bytearray(messages.pack(control_pb2.Progress(identity="a", stream_session_id=1, unit="u", totals=body)))
        harm = draw(st.sampled_from(["none", "none", "none", "byte", "tag", "cut", "more"]))
        if harm == "byte":
            raw[draw(st.integers(0, len(raw) - 1))] = draw(st.integers(0, 255))
        elif harm == "tag":
            raw[len(raw) - 9 * draw(st.integers(1, 6))] ^= draw(st.sampled_from([8, 56, 64]))
        elif harm == "cut":
            del raw[draw(st.integers(0, len(raw) - 1)) :]
        elif harm == "more":
            raw += draw(st.binary(max_size=3))
        made.append(bytes(raw))
    return made


def plainly(sessions: dict[tuple[str, int], dict[str, Totals]], raw: bytes | None) -> None:
    """The same, one step at a time."""
    report = messages.check(messages.unpack(raw))
    if not isinstance(report, messages.Report):
        raise errors.BadMessage(reason="a request came in the lane of reports")
    key = report.identity, report.stream_session_id
    if isinstance(report, control_pb2.Heartbeat):
        sessions.setdefault(key, {})
        return
    new = Totals.from_message(report.totals)
    span = new.time_range_ns
    before = sessions.get(key, {}).get(report.unit, Totals())
    signs = {
        (ours > theirs) - (ours < theirs)
        for ours, theirs in (
            (new.bursts, before.bursts),
            (new.samples, before.samples),
            (new.raw_bytes, before.raw_bytes),
            (new.stored_bytes, before.stored_bytes),
        )
    }
    if (span and (span[0] < EARLIEST_NS or span[1] > LATEST_NS)) or {-1, 1} <= signs:
        raise errors.ImplausibleReport(unit=report.unit, identity=report.identity, reason="")
    sessions.setdefault(key, {})[report.unit] = new.max_of(before)


def outcome(work: Any) -> type[Exception] | None:
    try:
        work()
    except errors.RtaError as error:
        return type(error)
    return None


@given(batch=st.lists(raws, max_size=12) | alike())
def test_the_fast_way_says_the_same_as_the_plain_one(batch: list[bytes | None]) -> None:
    """The same reports are refused with the same errors, and the others come to the same."""
    joined = MergedReports(earliest_ns=EARLIEST_NS, latest_ns=LATEST_NS)
    wanted: dict[tuple[str, int], dict[str, Totals]] = {}
    for raw in batch:
        fast = outcome(lambda raw=raw: joined.add(raw))
        assert fast == outcome(lambda raw=raw: plainly(wanted, raw))
        assert joined.sessions == wanted


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("step", [-1, 1, 200])
def test_a_report_that_differs_in_one_number_is_joined_as_plainly(place: int, step: int) -> None:
    """Each number is looked at, also where the report begins like the one before."""
    joined = MergedReports(earliest_ns=EARLIEST_NS, latest_ns=LATEST_NS)
    wanted: dict[tuple[str, int], dict[str, Totals]] = {}
    numbers = [3, 3, 3, 3, 50, 50]
    for change in (0, step, 0):
        changed = [number + change * (at == place) for at, number in enumerate(numbers)]
        body = Totals(*changed).to_message()
        raw = messages.pack(control_pb2.Progress(identity="a", stream_session_id=1, unit="u", totals=body))
        assert outcome(lambda raw=raw: joined.add(raw)) == outcome(lambda raw=raw: plainly(wanted, raw))
        assert joined.sessions == wanted


def test_something_that_only_looks_like_totals_is_not_taken_for_them() -> None:
    """A field that we don't know may end in the same bytes as totals do."""
    lookalike = control_pb2.Totals(bursts=9, samples=9, raw_bytes=9, stored_bytes=9, start_time=1, end_time=9)
    inside = control_pb2.Progress(identity="a", stream_session_id=1, unit="u", totals=control_pb2.Totals(bursts=1))
    further = b"\x2a\x36" + lookalike.SerializeToString()
    message = control_pb2.Control(
        version=1, progress=control_pb2.Progress.FromString(inside.SerializeToString() + further)
    )
    joined = MergedReports(earliest_ns=0, latest_ns=9)
    for _ in range(2):
        joined.add(message.SerializeToString())
        assert joined.sessions["a", 1]["u"].bursts == 1


def test_a_time_of_zero_is_a_time() -> None:
    """The epoch itself is told apart from no time at all."""
    joined = MergedReports(earliest_ns=0, latest_ns=9)
    report = control_pb2.Progress(
        identity="a", stream_session_id=1, unit="u", totals=control_pb2.Totals(start_time=0, end_time=0)
    )
    joined.add(messages.pack(report))
    assert joined.sessions["a", 1]["u"].time_range_ns == (0, 0)
    joined.add(messages.pack(control_pb2.Progress(identity="a", stream_session_id=1, unit="v")))
    assert joined.sessions["a", 1]["v"].time_range_ns is None


def test_a_large_message_is_refused_before_it_is_parsed() -> None:
    """As everywhere."""
    with pytest.raises(errors.BadMessage, match="bytes"):
        MergedReports(earliest_ns=0, latest_ns=9).add(b"x" * (256 * 1024 + 1))
