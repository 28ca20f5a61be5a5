"""What a Session Service is told of a session, applied to a service that had anything before."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.catalogue.publications.model import DuePublication, categories_line
from rta_supervisor.publish import content
from rta_wire import errors, session
from rta_wire.session import State
from tests.support.toolkit_services import StoredSession

NS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.text(max_size=5) | st.integers(-(2**53), 2**53) | st.booleans() | st.floats(allow_nan=False, width=32)
DETAILS = st.dictionaries(st.text(max_size=5), VALUES.filter(lambda value: value not in (float("inf"), -float("inf"))))
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "details": DETAILS | st.none(),
        "extDetails": st.dictionaries(st.sampled_from(["", "car", "track", "driver"]), DETAILS, max_size=2) | st.none(),
        "type": st.text(max_size=5) | st.none(),
        "group": st.text(max_size=5) | st.none(),
        "version": st.text(max_size=5) | st.integers(0, 9) | st.none(),
        "quality": st.floats(0, 1) | st.none(),
        "configBindings": st.lists(
            st.fixed_dictionaries({"identifier": st.text(max_size=5), "channelOffset": st.integers(0, 2**32 - 1)}),
            max_size=2,
            unique_by=lambda binding: str(binding["identifier"]),
        )
        | st.none(),
    },
)
STATES = st.sampled_from(list(State))


def due(document: dict[str, Any], state: State = State.OPEN, **changes: Any) -> DuePublication:
    """A session of which nothing was told."""
    made = DuePublication(
        *("run-1", 1, "p", 3, state, json.dumps(document), None, None, -1, "", "", None, None, "", 0, 0)
    )
    return msgspec.structs.replace(made, **changes)


def expected(document: dict[str, Any], state: State, time_range: tuple[int, int] | None) -> dict[str, Any]:
    """What a viewer should see, from the document alone."""
    version = document.get("version")
    categories = {**(document.get("extDetails") or {}), "": document.get("details") or {}}
    return {
        "state": state.number,
        "timestamp": document["timestamp"],
        "identifier": document["identifier"],
        "time_range": time_range,
        "type": document.get("type"),
        "quality": document.get("quality"),
        "group": document.get("group"),
        "version": None if version is None else str(version),
        "details": {name: values for name, values in categories.items() if values},
        "bindings": {
            binding["identifier"]: binding["channelOffset"] for binding in document.get("configBindings") or ()
        },
    }


@given(PROPERTIES, PROPERTIES, STATES, st.tuples(NS, NS).map(sorted))
def test_a_description_comes_out_the_same_whatever_was_there(
    before: dict[str, Any], after: dict[str, Any], state: State, time_range: list[int]
) -> None:
    """A session that is described anew is as the new document says, and nothing of the old one is left."""
    service = None
    told = ""
    for properties in (before, after):
        document = session.build("run-1", **properties)
        one = due(document, state, start_ns=time_range[0], end_ns=time_range[1], told_categories=told)
        description = content.parse(one.json)
        request = content.described(one, description)
        service = service or StoredSession(request.create_if_not_exists)
        for update in request.updates:
            service.apply(update)
        told += categories_line(description.categories)
    assert service is not None
    assert service.shown() == expected(document, state, (time_range[0], time_range[1]))


def test_the_range_comes_before_the_state() -> None:
    """At the end one call has the range, extended, and the state after it."""
    one = due(session.build("run-1"), State.CLOSED, start_ns=1, end_ns=9, told_version=2, told_state="open")
    request = content.described(one, content.parse(one.json))
    names = [update.WhichOneof("operation") for update in request.updates]
    assert names[0] == "extend_time_range"
    assert names[-1] == "set_state"
    assert request.updates[-1].set_state == State.CLOSED.number


def test_another_session_of_the_identity_has_a_range_of_its_own() -> None:
    """Nothing was told of this session: what the service has of an earlier one is replaced."""
    for one, operation in (
        (due(session.build("run-1"), start_ns=5, end_ns=6), "set_time_range"),
        (due(session.build("run-1")), "clear_time_range"),
    ):
        request = content.described(one, content.parse(one.json))
        assert request.updates[0].WhichOneof("operation") == operation


def test_numbers_keep_their_digits() -> None:
    """Details are passed on as they are written, not as Python would print them."""
    text = '{"timestamp":"2026-11-18T00:00:00Z","identifier":"i","details":{"a":1.50,"b":12345678901234567890}}'
    one = due({}, json=text)
    request = content.described(one, content.parse(text))
    [told] = [update.set_details_json for update in request.updates if update.HasField("set_details_json")]
    assert told.json == '{"a":1.50,"b":12345678901234567890}'


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"timestamp":1,"identifier":"i"}', '{"timestamp":"'])
def test_a_damaged_row_is_refused(text: str) -> None:
    """Session JSON that can't be told to anybody is an error with a reason."""
    with pytest.raises(errors.BadSessionJson):
        content.parse(text)


def test_an_offset_without_room_is_refused() -> None:
    """A binding whose offset does not fit the call is an error, not a crash."""
    for offset in (2**32, 2**70):
        one = due(session.build("run-1", configBindings=[{"identifier": "c", "channelOffset": offset}]))
        with pytest.raises(errors.BadSessionJson, match="channelOffset"):
            content.parse(one.json)


def test_a_group_without_a_name_does_not_hide_the_details() -> None:
    """The category with the empty name is that of the details."""
    one = due(session.build("run-1", details={"n": 1}, extDetails={"": {"m": 2}}))
    request = content.described(one, content.parse(one.json))
    told = [update.set_details_json for update in request.updates if update.HasField("set_details_json")]
    assert [(details.category, json.loads(details.json)) for details in told] == [("", {"n": 1})]


def test_a_session_that_grew_is_extended_and_another_has_a_heartbeat() -> None:
    """Only what changed is told of a session whose description the service has."""
    grown = due(session.build("run-1"), start_ns=1, end_ns=9, told_start_ns=1, told_end_ns=8)
    [update] = content.refreshed(grown).updates
    assert (update.extend_time_range.start_time, update.extend_time_range.end_time) == (1, 9)
    [update] = content.refreshed(msgspec.structs.replace(grown, told_end_ns=9)).updates
    assert update.WhichOneof("operation") == "update_heartbeat"
