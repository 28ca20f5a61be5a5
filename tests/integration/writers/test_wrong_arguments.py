"""Whatever is passed to the public API either works or is a named error, and what is refused changes nothing in Redis.

There is no supervisor: a request that is in order ends as NoSupervisor, before anything is sent.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rta_writers
from rta_wire import errors, keys
from rta_wire.control.totals import Totals
from rta_writers.options.target import Target
from rta_writers.options.write import WRITE_PARSERS
from rta_writers.write import lost_rows
from tests.support.odd_values import ODD_VALUES, any_value

ANY_FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
Call = Callable[..., Any]
MESSAGE_MAX_CHARS = 4200


CLIENT_CALLS: dict[str, Call] = {
    "SessionClient(url)": lambda _, odd: rta_writers.SessionClient(odd),
    "SessionClient(principal)": lambda client, odd: rta_writers.SessionClient(client.url, principal=odd),
    "SessionClient(key_prefix)": lambda client, odd: rta_writers.SessionClient(client.url, key_prefix=odd),
    "SessionClient(timeout_s)": lambda client, odd: rta_writers.SessionClient(client.url, timeout_s=odd),
    "open(identity)": lambda client, odd: client.open(odd, stream="rig"),
    "open(stream)": lambda client, odd: client.open("run", stream=odd),
    "open(external_id)": lambda client, odd: client.open("run", stream="rig", external_id=odd),
    "open(details)": lambda client, odd: client.open("run", stream="rig", details=odd),
    "open(identifier)": lambda client, odd: client.open("run", stream="rig", identifier=odd),
    "open(unknown)": lambda client, odd: client.open("run", stream="rig", unknown=odd),
    "update(identity)": lambda client, odd: client.update(odd, type="race"),
    "update(state)": lambda client, odd: client.update("run", state=odd),
    "update(details)": lambda client, odd: client.update("run", details=odd),
    "update(timeRange)": lambda client, odd: client.update("run", timeRange=odd),
    "close(identity)": lambda client, odd: client.close(odd),
    "close(state)": lambda client, odd: client.close("run", state=odd),
    "close(expected)": lambda client, odd: client.close("run", expected=odd),
    "close(request_id)": lambda client, odd: client.close("run", request_id=odd),
    "cancel(request_id)": lambda client, odd: client.cancel(odd),
    "wait(identity)": lambda client, odd: client.wait(odd, "open", timeout_s=0.01),
    "wait(state)": lambda client, odd: client.wait("run", odd, timeout_s=0.01),
    "wait(timeout_s)": lambda client, odd: client.wait("run", "open", timeout_s=odd),
    "report": lambda client, odd: client.report(odd),
    "ask": lambda client, odd: client.ask(odd),
    "sessions(client)": lambda _, odd: rta_writers.sessions(odd, stream="rig"),
    "close_all(identities)": lambda client, odd: client.close_all(odd),
    "close_all(identity)": lambda client, odd: client.close_all([odd]),
    "close_all(state)": lambda client, odd: client.close_all(["run"], state=odd),
    "report_all": lambda client, odd: client.report_all(odd),
    "report_all(message)": lambda client, odd: client.report_all([odd]),
    "ask_all": lambda client, odd: list(client.ask_all(odd)),
    "ask_all(request)": lambda client, odd: list(client.ask_all([odd])),
    "sessions(stream)": lambda client, odd: rta_writers.sessions(client, stream=odd).close(),
    "sessions(details)": lambda client, odd: rta_writers.sessions(client, stream="rig", details=odd).close(),
    "sessions(key_prefix)": lambda client, odd: rta_writers.sessions(client, stream="rig", key_prefix=odd).close(),
    "sessions(channels)": lambda client, odd: rta_writers.sessions(client, stream="rig", channels=odd).close(),
    "open(channels)": lambda client, odd: client.open("run", stream="rig", channels=odd),
    "update(external_id)": lambda client, odd: client.update(external_id=odd, type="race"),
    "close(external_id)": lambda client, odd: client.close(external_id=odd),
    "wait(external_id)": lambda client, odd: client.wait(external_id=odd, timeout_s=0.01),
    "get(identity)": lambda client, odd: client.get(odd),
    "get(external_id)": lambda client, odd: client.get(external_id=odd),
    "list(state)": lambda client, odd: client.list(state=odd),
    "list(one state)": lambda client, odd: client.list(state=[odd]),
    "list(stream)": lambda client, odd: client.list(stream=odd),
    "list(text)": lambda client, odd: client.list(text=odd),
    "list(since)": lambda client, odd: client.list(since=odd),
    "list(until)": lambda client, odd: client.list(until=odd),
    "list(details)": lambda client, odd: client.list(details=odd),
    "list(one detail)": lambda client, odd: client.list(details={"a": odd}),
    "list(limit)": lambda client, odd: client.list(limit=odd),
    "configs.publish": lambda client, odd: client.configs.publish(odd),
}

FRAME = pa.table({"time": [1], "rpm": [1.0]})
CHANNELS = rta_writers.Channels.of(FRAME)

CHANNEL_CALLS: dict[str, Call] = {
    "Channels": rta_writers.Channels,
    "of(frame)": rta_writers.Channels.of,
    "of(application)": lambda odd: rta_writers.Channels.of(FRAME, application=odd),
    "of(known)": lambda odd: rta_writers.Channels.of(FRAME, known=odd),
    "of(ignore)": lambda odd: rta_writers.Channels.of(FRAME, ignore=odd),
    "of(one to ignore)": lambda odd: rta_writers.Channels.of(FRAME, ignore=[odd]),
    "load(path)": rta_writers.Channels.load,
    "load(name)": lambda odd: rta_writers.Channels.load(f"{odd}.toml" if isinstance(odd, str) else odd),
    "save(path)": CHANNELS.save,
    "save(name)": lambda odd: CHANNELS.save(f"missing/{odd}.toml" if isinstance(odd, str) else odd),
    "extended(known)": CHANNELS.extended,
    "[name]": CHANNELS.__getitem__,
}


def content(client: redis.Redis) -> dict[Any, Any]:
    """Every key with its value, but for heartbeats of sessions that tests before these left open."""
    others = keys.Keys().reports(keys.DEFAULT_PRINCIPAL).encode()
    return {key: client.dump(key) for key in client.scan_iter() if key != others}


@pytest.fixture
def api(url: str, client: redis.Redis) -> rta_writers.SessionClient:
    """A client, and the state of one open session that it can wait for."""
    client.hset(keys.Keys().session_state("run"), keys.STATE, "open")
    client.expire(keys.Keys().session_state("run"), 60)
    return rta_writers.SessionClient(url, principal="odd")


def check_message(error: errors.RtaError) -> None:
    assert 0 < len(str(error)) < MESSAGE_MAX_CHARS


def check_call(client: redis.Redis, api: rta_writers.SessionClient, call: Call, odd: Any) -> None:
    before = content(client)
    try:
        call(api, odd)
    except errors.RtaError as error:
        check_message(error)
        assert content(client) == before


@pytest.mark.parametrize("call", CLIENT_CALLS.values(), ids=CLIENT_CALLS)
def test_clients_refuse_odd_values_by_name(client: redis.Redis, api: rta_writers.SessionClient, call: Call) -> None:
    """Each odd value for each parameter: it works, or raises one of our errors before anything is sent."""
    for odd in ODD_VALUES:
        check_call(client, api, call, odd)


@pytest.mark.parametrize("call", CHANNEL_CALLS.values(), ids=CHANNEL_CALLS)
def test_lists_of_channels_refuse_odd_values_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    """Each odd value for each parameter: it works, or raises one of our errors. Files are none of them."""
    monkeypatch.chdir(tmp_path)
    for odd in ODD_VALUES:
        try:
            call(odd)
        except errors.RtaError as error:
            check_message(error)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["unit", "epoch"])
def test_unit_and_epoch_of_a_writer_are_refused_by_name(client: redis.Redis, target: Target, name: str) -> None:
    """Each odd value: it is a unit or an epoch, or raises one of our errors before anything is written."""
    before = content(client)
    for odd in ODD_VALUES:
        try:
            rta_writers.BurstWriter(target.options(), **{name: odd})
        except errors.RtaError as error:
            check_message(error)
    assert content(client) == before


@ANY_FIXTURE
@given(call=st.sampled_from(list(CLIENT_CALLS)), odd=any_value())
def test_clients_refuse_any_value_by_name(
    client: redis.Redis, api: rta_writers.SessionClient, call: str, odd: Any
) -> None:
    """The same for random values."""
    check_call(client, api, CLIENT_CALLS[call], odd)


@pytest.mark.parametrize("name", [None, *WRITE_PARSERS])
def test_options_of_a_writer_are_refused_by_name(client: redis.Redis, target: Target, name: str | None) -> None:
    """Any value of any option, of an unknown one, and anything in the place of all options."""
    before = content(client)
    for odd in ODD_VALUES:
        if name == "redisUrl" and isinstance(odd, str):
            continue  # another server, which is waited for
        changed = [{**target.options(), name: odd}] if name is not None else [odd, {**target.options(), "odd": odd}]
        for options in changed:
            with contextlib.suppress(errors.RtaError):
                rta_writers.BurstWriter(options)
    assert content(client) == before


@pytest.mark.parametrize("place", [0, 1, 2, None], ids=["channels", "times", "values", "all"])
def test_samples_are_written_whole_or_not_at_all(client: redis.Redis, target: Target, place: int | None) -> None:
    """A writer that refused something goes on as if that call had not been; one that took it writes all of it."""
    for odd in ODD_VALUES:
        columns: list[Any] = [odd if place in (index, None) else one for index, one in enumerate(([1], [10], [1.0]))]
        with rta_writers.BurstWriter(target.options()) as writer:
            writer.samples([7], [5], [0.5])
            try:
                writer.samples(*columns)
            except errors.RtaError as error:
                check_message(error)
                rows = 0
            else:
                rows = len(odd)
            writer.samples([7], [6], [0.5])
        assert writer.close().effort.rows == 2 + rows
    assert client.exists(keys.stream("rig"))


@ANY_FIXTURE
@given(columns=st.tuples(any_value(), any_value(), any_value()))
def test_samples_of_any_value_are_refused_by_name(target: Target, columns: tuple[Any, Any, Any]) -> None:
    """The same for random values, none of which can be rows that go on in the columns of the first."""
    with rta_writers.BurstWriter(target.options()) as writer:
        writer.samples([7], [5], [0.5])
        with contextlib.suppress(errors.RtaError):
            writer.samples(*columns)


def test_partitions_are_refused_by_name(client: redis.Redis, target: Target) -> None:
    """Any rows, any row among good ones, any value in a row; where it is refused at once nothing is written."""
    options: dict[str, Any] = {**target.options(), "job": "nightly"}
    good = {"channel": 1, "time": 1, "value": 1.0}
    for odd in ODD_VALUES:
        several: list[Any] = [odd, [odd], [good, odd], [pa.record_batch({"a": [1]}), odd]]
        for rows in (*several, *([{**good, name: odd}] for name in good)):
            client.delete(keys.stream("rig"), target.keys.marks("rig", 7), target.keys.fence("rig", 7, "nightly/0"))
            lost_rows.acknowledged_units.clear()
            try:
                rta_writers.write_partition(rows, **options)
            except errors.RtaError as error:
                check_message(error)
                assert not client.exists(keys.stream("rig"))


@pytest.mark.parametrize("place", [0, 1])
def test_a_row_that_is_none_ends_no_partition(client: redis.Redis, target: Target, place: int) -> None:
    """It is refused like any other row that is none, and not taken for the end of all rows."""
    rows: list[Any] = [{"channel": 1, "time": 1, "value": 1.0}] * 2
    rows.insert(place, None)
    with pytest.raises(errors.BadSamples, match=f"row {place}: it is None, not a dict or a row of Spark"):
        rta_writers.write_partition(rows, **{**target.options(), "job": "nightly"})
    assert not client.exists(keys.stream("rig"))


def test_options_of_a_partition_are_refused_by_name(target: Target) -> None:
    """Any value of any option."""
    for name in WRITE_PARSERS:
        for odd in ODD_VALUES:
            with contextlib.suppress(errors.RtaError):
                rta_writers.write_partition([], **{**target.options(), "job": "nightly", name: odd})


def test_a_writer_takes_tables_alone(client: redis.Redis, target: Target) -> None:
    """`write` takes a batch or a table with the columns of a form. Anything else writes nothing."""
    for odd in ODD_VALUES:
        with rta_writers.BurstWriter(target.options()) as writer, pytest.raises(errors.RtaError):
            writer.write(odd)
    assert not client.exists(keys.stream("rig"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([1, 2], [1], [1.0]), "2 channels, 1 times and 1 values differ"),
        ((1, 2, 3.0), "the channel column 1 can't be an array"),
        (([1], [2**63], [1.0]), "the time column \\[9223372036854775808\\] can't be an array"),
        (([1], [1.5], [1.0]), "Column 'time' is double, not a timestamp or a bigint"),
        (([1], np.array(["NaT"], "M8[ns]"), [1.0]), "row 0: the time is null"),
        (([-1], [1], [1.0]), "row 0: the channel does not fit uint32: -1"),
        (([2**32], [1], [1.0]), "row 0: the channel does not fit uint32: 4294967296"),
        (([1], [1], ["x"]), "Column 'value' is string, not a number"),
        (([1, 1], [1, 2], np.array([1, "x"], object)), "the value column .* can't be an array"),
        (({1, 2}, [1, 2], [1, 2]), "the channel column {1, 2} can't be an array: it is not a sequence"),
    ],
)
def test_wrong_samples_say_which_column(target: Target, columns: tuple[Any, Any, Any], message: str) -> None:
    """The sentence names the column, and the row where one is wrong."""
    with rta_writers.BurstWriter(target.options()) as writer, pytest.raises(errors.RtaError, match=message):
        writer.samples(*columns)


@pytest.mark.parametrize(
    ("form", "options", "rows"),
    [
        ("long", {"sampleType": "int8"}, {"channel": [1, 1], "time": [1, 2], "value": [1, 300]}),
        ("long", {"channels": "rpm=1"}, {"channel": ["rpm", "rmp"], "time": [1, 2], "value": [1, 2]}),
        ("wide", {"channels": "rpm=1", "sampleType": "int8"}, {"time": [1, 2], "rpm": [None, 300]}),
        ("events", {}, {"event_definition_id": [1, None], "time": [1, 2]}),
        ("rows", {}, {"time": [1, 2], "channels": [[1], [2]], "values": [[1.0], [1.0, 2.0]]}),
    ],
)
def test_no_row_of_a_refused_batch_is_written(
    client: redis.Redis, target: Target, form: str, options: dict[str, str], rows: dict[str, list[Any]]
) -> None:
    """In every form: the first row is in order and the second is not, and the writer goes on without both."""
    batch = pa.record_batch(rows)
    with rta_writers.BurstWriter({**target.options(), **options, "form": form}) as writer:
        writer.write(batch.slice(0, 1))
        with pytest.raises(errors.BadSamples, match="row 1: "):
            writer.write(batch)
    assert writer.close().effort.rows == 1
    assert client.xlen(keys.stream("rig")) == (0 if form == "wide" else 1)


def test_a_closed_writer_takes_nothing(client: redis.Redis, target: Target) -> None:
    """Rows after the end are refused, and not mistaken for rows of the epoch that was written."""
    writer = rta_writers.BurstWriter(target.options(), unit="u")
    writer.samples([1], [1], [1.0])
    result = writer.close()
    before = content(client)
    calls: tuple[Call, ...] = (
        lambda: writer.samples([1], [2], [2.0]),
        writer.flush,
        lambda: writer.write(pa.table({})),
    )
    for call in calls:
        with pytest.raises(errors.Usage, match="The writer of unit 'u/0' is closed"):
            call()
    assert writer.close() is result
    assert content(client) == before


def test_a_writer_that_failed_says_so_until_its_end(client: redis.Redis, target: Target) -> None:
    """Rows may have been lost with the error, so nothing that follows can look like a success."""
    writer = rta_writers.BurstWriter(target.options(), unit="u")
    writer.samples([1], [1], [1.0])
    client.set(target.keys.gate("rig", 7), "sealed", ex=60)
    with pytest.raises(errors.SessionClosed):
        writer.flush()
    client.set(target.keys.gate("rig", 7), "open", ex=60)
    for call in (writer.flush, writer.close, lambda: writer.samples([1], [2], [2.0])):
        with pytest.raises(errors.Usage, match=r"has failed, and rows .* may be missing: Session 'run' is closed"):
            call()


def test_a_group_is_not_ended_in_an_odd_state(sessions: rta_writers.SessionClient) -> None:
    """Even where it has no session yet that would be refused."""
    with rta_writers.sessions(sessions, stream="rig", key_prefix="a property like any other") as group:
        for odd in ODD_VALUES:
            with pytest.raises(errors.Usage, match="Argument 'state' is "):
                group.close(state=odd)
        assert str(group) == f"SessionGroup('{group.name}', stream='rig', open)"
    assert str(group) == f"SessionGroup('{group.name}', stream='rig', 0 sessions ended)"


def test_numbers_of_numpy_are_numbers(sessions: rta_writers.SessionClient, client: redis.Redis) -> None:
    """In properties and in totals, as they come out of an array or a frame."""
    with sessions.open("run", stream="rig", details={"laps": np.int64(5), "best": np.float32(0.5)}) as session:
        session.update(version=np.int16(3), details={"is_wet": np.bool_(True)})
        ended = session.close(expected=Totals(samples=np.int64(0)))  # type: ignore[arg-type]
    assert ended.state == "closed"
    document: Any = client.hget("sessions:run", "json")
    assert b'"version":3' in document
    assert b'"is_wet":true' in document
