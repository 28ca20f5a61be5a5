"""The Session JSON: what is accepted, what is refused and where the mistake is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors, limits, session
from rta_wire.session import State

GOOD: dict[str, Any] = {
    "identity": "run-1",
    "state": "open",
    "timestamp": "2026-01-01T00:00:00Z",
    "identifier": "Run 1",
}


def test_unknown_properties_come_back_as_they_were() -> None:
    """A property that we do not know is kept, nesting and all."""
    document = GOOD | {"vendor": {"deep": [1, {"x": None}]}, "details": {"Rig": 4, "Ok": True, "Name": "ä"}}
    assert session.parse(session.dump(document)) == document


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"state": "sleeping"}, "$.state"),
        ({"timestamp": "2026-01-01T00:00:00"}, "$.timestamp"),
        ({"timestamp": "yesterday"}, "$.timestamp"),
        ({"identifier": 7}, "$.identifier"),
        ({"quality": 1.5}, "$.quality"),
        ({"details": {"nested": {}}}, "$.details"),
        ({"details": {"nothing": None}}, "$.details"),
        ({"extDetails": {"flat": 1}}, "$.extDetails"),
        ({"configBindings": [{"identifier": "a", "channelOffset": -1}]}, "$.configBindings"),
        ({"timeRange": {"startTime": 2, "endTime": 1}}, "$.timeRange"),
    ],
)
def test_a_wrong_property_is_named(change: dict[str, Any], where: str) -> None:
    """The error says at which property the document breaks the protocol."""
    with pytest.raises(errors.BadSessionJson) as caught:
        session.check(GOOD | change)
    assert str(caught.value.facts["where"]).startswith(where)


@pytest.mark.parametrize("name", ["identity", "state", "timestamp", "identifier"])
def test_required_properties_are_required(name: str) -> None:
    """Each of the four required properties is missed by name."""
    with pytest.raises(errors.BadSessionJson, match=name):
        session.check({key: value for key, value in GOOD.items() if key != name})


@pytest.mark.parametrize(
    "text",
    [
        '{"identity": "a", "identity": "b"}',
        '{"identity": NaN}',
        '{"identity": Infinity}',
        "[" * 1000 + "]" * 1000,
        "{",
        "[]",
        "null",
        "7",
        b"\xff\xfe",
        '{"x": "' + "x" * limits.SESSION_JSON_MAX_BYTES + '"}',
    ],
)
def test_text_that_is_no_session_is_refused(text: str | bytes) -> None:
    """Duplicate keys, NaN, deep nesting, cut text, wrong types, broken UTF-8 and too much text all have one error."""
    with pytest.raises(errors.BadSessionJson):
        session.parse(text)


def test_brackets_in_strings_are_not_nesting() -> None:
    """A text full of brackets is a text."""
    document = GOOD | {"group": '[[{"' * 200}
    assert session.parse(json.dumps(document)) == document


def depth_of(text: str) -> int:
    """How deep a text nests, byte by byte: the same question, answered slowly."""
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif in_string:
            escaped, in_string = character == "\\", character != '"'
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


json_values = st.recursive(
    st.text(alphabet='[]{}"\\a', max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='[{"\\', max_size=4), inner, max_size=3)
    ),
    max_leaves=30,
)


@given(json_values, st.integers(0, 20))
def test_nesting_is_counted_outside_of_strings(value: Any, more: int) -> None:
    """Whatever brackets, quotes and backslashes strings contain: refused for its depth just where it is too deep."""
    for _ in range(more):
        value = [value]
    text = json.dumps(value)
    if depth_of(text) > limits.SESSION_JSON_MAX_DEPTH:
        with pytest.raises(errors.BadSessionJson, match="nests deeper"):
            session.parse(text)
    else:
        with pytest.raises(errors.BadSessionJson) as caught:
            session.parse(text)
        assert "nests" not in str(caught.value)


def test_very_many_containers_are_refused_before_they_are_parsed() -> None:
    """Each takes much more than the bytes that it is written with; as many details as fit are taken."""
    with pytest.raises(errors.BadSessionJson, match="more than 100000"):
        session.parse('{"children":[' + ",".join(["[]"] * 100_000) + "]}")
    document = GOOD | {"details": {f"d{number}": number for number in range(50_000)}}
    assert session.parse(session.dump(document)) == document


@given(st.binary(max_size=300))
def test_any_bytes_give_a_document_or_the_one_error(raw: bytes) -> None:
    """No input raises anything else."""
    try:
        document = session.parse(raw)
    except errors.BadSessionJson:
        return
    assert document["state"] in set(State)


@given(st.integers(-(2**62), 2**62), st.integers(0, 2**61))
def test_life_is_exact_to_the_nanosecond(start_ns: int, length_ns: int) -> None:
    """The time range survives JSON text to the last digit, and the ISO times keep all nine."""
    end_ns = start_ns + length_ns
    document = session.with_supervisor_properties(GOOD | {"timeRange": None}, State.CLOSED, (start_ns, end_ns))
    parsed = session.parse(session.dump(document))
    assert parsed["timeRange"] == {"startTime": start_ns, "endTime": end_ns}
    assert int(parsed["startTimestamp"][-10:-1]) == start_ns % 10**9
    assert parsed["state"] == "closed"


def test_states_have_the_numbers_of_the_protocol() -> None:
    """Every closed state is 4 or more, and no other is."""
    numbers = {state.value: state.number for state in State}
    assert numbers == {
        "unknown": 0,
        "waiting": 1,
        "open": 2,
        "closed": 4,
        "truncated": 12,
        "failed": 28,
        "abandoned": 44,
    }
    assert {state for state in State if state.is_closed} == {
        State.CLOSED,
        State.TRUNCATED,
        State.FAILED,
        State.ABANDONED,
    }


def test_a_session_is_built_with_what_the_protocol_requires() -> None:
    """The client's short call gives a whole document."""
    document = session.build("run-1", details={"Rig": 4}, group="tests")
    assert document["identifier"] == "run-1"
    assert document["group"] == "tests"
    assert session.parse(session.dump(document)) == document
