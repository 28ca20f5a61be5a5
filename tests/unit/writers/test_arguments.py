"""Arguments of public calls: what is converted, what is refused, and what the sentence says."""

import contextlib
import datetime as dt
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors, session
from rta_wire.control.totals import Totals
from rta_writers.connection import redis_client
from rta_writers.options import arguments
from rta_writers.options.read import READ_PARSERS, ReadOptions
from rta_writers.options.write import WRITE_PARSERS, WriteOptions
from tests.support.odd_values import ODD_VALUES, any_value

CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": float("nan")}, r"at \$\.a: JSON has no NaN or infinity: leave it out"),
        ({"a": [1, np.float32("inf")]}, r"at \$\.a\[1\]: JSON has no NaN"),
        ({"a": b"x"}, r"at \$\.a: it is b'x' \(bytes\), and JSON has .* bytes with decode\(\)"),
        ({"a": {1, 2}}, r"at \$\.a: it is {1, 2} \(set\)"),
        ({"a": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}, r"at \$\.a: .* a time with isoformat\(\)"),
        ({"a": np.datetime64("2026-01-01")}, r"at \$\.a: .*datetime64"),
        ({"a": {5: 1}}, r"at \$\.a: the name 5 is not text"),
        ({"a": CYCLE}, "it nests deeper than 16, or contains itself"),
        ({"a": {"b": "\ud800"}}, r"at \$\.a\.b: '\\ud800' is not valid UTF-8"),
        ({"a": 10**5000}, r"at \$\.a: it is too large a number"),
    ],
)
def test_what_json_does_not_have_is_refused_with_its_place(value: dict[str, Any], message: str) -> None:
    """The sentence names the property, and what to do about it."""
    with pytest.raises(errors.BadSessionJson, match=message):
        arguments.json_object(value)


def test_numpy_tuples_and_enumerations_become_plain_values() -> None:
    """What JSON can say without a loss is taken."""
    given_values = {"a": np.int8(1), "b": (np.float64(0.5), np.bool_(False)), "c": session.State.OPEN, "d": 2**70}
    assert arguments.json_object(given_values) == {"a": 1, "b": [0.5, False], "c": "open", "d": 2**70}


@given(value=any_value())
def test_what_is_accepted_comes_back_from_json(value: Any) -> None:
    """Any properties are refused by name, or are read back as what was passed."""
    try:
        properties = arguments.json_object({"a": value})
    except errors.BadSessionJson:
        return
    assert json.loads(session.dump_properties(properties))["a"] == value


@pytest.mark.parametrize("name", ["state", "timeRange", "identity"])
def test_an_update_is_refused_before_it_is_sent(name: str) -> None:
    """Properties that the supervisor owns."""
    with pytest.raises(errors.BadSessionJson, match="the supervisor owns it"):
        session.dump_properties({name: 1})


@pytest.mark.parametrize("value", [float("nan"), 0, -1, None, "5", True, 1j])
def test_seconds_are_above_0(value: Any) -> None:
    """No NaN, no text, nothing negative; None is no way to say forever."""
    with pytest.raises(errors.Usage, match=r"Argument 'timeout_s' is .*: it has to be a number of seconds above 0"):
        arguments.seconds("timeout_s", value)


def test_seconds_of_any_size_and_type() -> None:
    """Infinity waits for ever, and so does a number that no float holds."""
    assert arguments.seconds("timeout_s", np.float32(0.5)) == 0.5
    assert arguments.seconds("timeout_s", math.inf) == arguments.seconds("timeout_s", 10**400) == math.inf


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1000, r"it has to be Totals of rta_wire.control.totals, such as Totals\(samples=1000\)"),
        (
            Totals(samples=-1),
            "'expected.samples' is -1: it has to be a whole number between 0 and 18446744073709551615",
        ),
        (Totals(bursts=2**64), "'expected.bursts' is 18446744073709551616"),
        (Totals(samples=1.5), "'expected.samples' is 1.5"),  # type: ignore[arg-type]
        (Totals(samples=True), "'expected.samples' is True"),
        (Totals(start_ns=2**63, end_ns=0), "'expected.start_ns and end_ns' is 9223372036854775808"),
    ],
)
def test_expected_totals_are_numbers_that_can_arrive(value: Any, message: str) -> None:
    """The sentence names the field."""
    with pytest.raises(errors.Usage, match=message):
        arguments.totals("expected", value)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "it has no scheme"),
        ("http://host", "its scheme 'http' is not known"),
        ("redis://host/abc", "its database, after the '/', is not a number"),
        ("redis://host:99999", "Port out of range"),
        ("redis://host?quux=1", "its query has an option that redis-py does not know .*'quux'"),
        ("redis://host?socket_timeout=nan", "its socket_timeout is not a number of seconds above 0"),
        ("redis://host?socket_timeout=-1", "its socket_timeout is not a number of seconds above 0"),
        ("redis://a..b", "its host is not the name of a host"),
        ("redis://host?protocol=9", "protocol must be either 2 or 3"),
        ("rediss://host?ssl_cert_reqs=maybe", "Invalid SSL Certificate Requirements"),
        ("redis://me:secret@host?quux=1", r"URL 'redis://me:\*\*\*@host.*: .* or its query has an option"),
        ("redis+sentinel://host/master?quux=1", "its query has an option"),
        ("redis+cluster://host?quux=1", "its query has an option"),
    ],
)
def test_a_wrong_url_is_refused_before_it_is_used(url: str, message: str) -> None:
    """Mistakes that redis-py would find when it connects, as an error of Python, are those of the URL."""
    with pytest.raises(errors.BadConfiguration, match=message):
        redis_client.connect(url)


@given(value=any_value(), is_read=st.booleans(), data=st.data())
def test_any_option_is_parsed_or_refused_by_name(value: Any, is_read: bool, data: st.DataObject) -> None:
    """Of readers and of writers."""
    parsers = READ_PARSERS if is_read else WRITE_PARSERS
    options = {"redisUrl": "redis://localhost", "stream": "rig", data.draw(st.sampled_from(list(parsers))): value}
    with contextlib.suppress(errors.RtaError):
        (ReadOptions if is_read else WriteOptions).parse(options)


@pytest.mark.parametrize("name", READ_PARSERS)
def test_odd_options_of_a_reader_are_refused_by_name(name: str) -> None:
    """Those of writers are tested with a server, by making a writer."""
    for odd in ODD_VALUES:
        with contextlib.suppress(errors.RtaError):
            ReadOptions.parse({"redisUrl": "redis://localhost", "stream": "rig", name: odd})


@pytest.mark.parametrize("offset", ["18446744073709551616-0", "\u0661-\u0662", "1", "-1"])
def test_an_offset_that_redis_would_refuse_is_refused_here(offset: str) -> None:
    """Numbers of more than 64 bits, and digits of other scripts."""
    with pytest.raises(errors.Usage, match=r"Option 'startingOffset' is .*: it is earliest, latest or the id"):
        ReadOptions.parse({"redisUrl": "redis://localhost", "stream": "rig", "startingOffset": offset})


def test_numbers_and_booleans_are_options_as_spark_takes_them() -> None:
    """`BurstWriter({**session.options, "groupRows": 1000})` means what it says."""
    options = {"redisUrl": "redis://localhost", "stream": "rig", "groupRows": 1000, "wait": True, "waitTimeoutS": 0.5}
    parsed = WriteOptions.parse(options)
    assert (parsed.group_rows, parsed.wait, parsed.wait_timeout_s) == (1000, True, 0.5)
    with pytest.raises(errors.Usage, match=r"Option 'channels' is text, .* not dict: make it text with json.dumps"):
        WriteOptions.parse({**options, "channels": {"rpm": 1}})
    with pytest.raises(errors.Usage, match=r"Options are texts by name, not NoneType.*session.options"):
        WriteOptions.parse(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("properties", ['{"identity": "x"}', '{"quality": 2}', '{"identifier": 5}', "[" * 100_000])
def test_properties_of_sessions_that_tasks_open_are_checked_on_the_driver(properties: str) -> None:
    """A task would find them when it sees the first row of a session."""
    with pytest.raises(errors.RtaError):
        WriteOptions.parse({"redisUrl": "redis://localhost", "stream": "rig", "sessionProperties": properties})
