"""Updates of a session's properties: which of two came later, whatever the order in which they are applied."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.session import patch as session_patch
from rta_supervisor.session.patch import STATE, Patch
from rta_wire import entry_ids, session
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.support.session_values import session_record

entry_id_strategy = st.builds(entry_ids.format_id, st.integers(0, 12), st.integers(0, 12)).filter(
    lambda entry_id: entry_id != entry_ids.MIN
)
patches = st.builds(
    Patch, properties=st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)), entry_id=entry_id_strategy
)


def apply(sequence: list[Patch]) -> tuple[dict[str, int], dict[str, str]]:
    """Properties and the entry id of the latest update of each, after patches one by one."""
    properties: dict[str, int] = {}
    updated: dict[str, str] = {}
    for patch in sequence:
        newer = patch.newer_properties(updated)
        assert patch.has_newer(updated, about_state=False) == bool(newer)
        properties |= newer
        updated |= dict.fromkeys(newer, patch.entry_id)
    return properties, updated


@given(sequence=st.lists(patches, unique_by=lambda patch: patch.entry_id), data=st.data())
def test_patches_come_to_the_same_in_any_order_and_number(sequence: list[Patch], data: st.DataObject) -> None:
    """Shuffled and repeated, they give what they give in the order of their entry ids: the latest of each property."""
    in_order = sorted(sequence, key=lambda patch: entry_ids.parse(patch.entry_id))
    again = data.draw(st.lists(st.sampled_from(sequence))) if sequence else []
    shuffled = data.draw(st.permutations([*sequence, *again]))
    assert apply(shuffled) == apply(in_order)
    latest = {name: value for patch in in_order for name, value in patch.properties.items()}
    assert apply(shuffled)[0] == latest


@given(patch=patches, other_id=entry_id_strategy)
def test_a_change_of_state_is_as_new_as_its_own_entry(patch: Patch, other_id: str) -> None:
    """Whether a pause is stale is told by the latest change of state, whatever became of the properties beside it."""
    is_newer = entry_ids.is_after(patch.entry_id, other_id)
    assert patch.has_newer({STATE: other_id}, about_state=True) == is_newer
    assert patch.has_newer(dict.fromkeys("abc", entry_ids.MAX), about_state=True)
    assert not patch.has_newer({STATE: patch.entry_id}, about_state=True)


def test_entry_ids_compare_as_numbers() -> None:
    """9-9 is before 10-0, which text would say the other way round."""
    patch = Patch({"a": 1}, "10-0")
    assert patch.newer_properties({"a": "9-9"}) == {"a": 1}
    assert not patch.newer_properties({"a": "10-0"})
    assert not patch.newer_properties({"a": "10-1"})


def applied(state: State, update: Patch | None, **fields: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Properties and updated entry ids after a transition to a state."""
    document = session.dump(session.build("run", group="old", type="test"))
    raw, updated = session_patch.apply(session_record(document=document, **fields), state, update)
    return json.loads(raw), updated


def test_a_patch_changes_what_no_later_request_has_set() -> None:
    """A property that is set to null is removed, and what a later request has set stays."""
    update = Patch({"group": "new", "type": None, "quality": 0.5}, "5-0")
    properties, updated = applied(State.OPEN, update, property_entry_ids={"quality": "6-0"})
    assert properties["group"] == "new"
    assert not {"type", "quality"} & properties.keys()
    assert updated == {"group": "5-0", "type": "5-0"}


def test_a_change_of_state_is_ordered_with_the_properties() -> None:
    """Its entry id is noted only where the state changes; an end without a request notes none."""
    update = Patch({}, "5-0")
    assert applied(State.WAITING, update)[1] == {STATE: "5-0"}
    assert applied(State.OPEN, update)[1] == {}
    properties, updated = applied(State.CLOSED, None)
    assert (properties["state"], properties["group"], updated) == ("closed", "old", {})


def test_state_and_time_range_are_the_supervisors() -> None:
    """They come from the record and the transition, whatever the JSON said before."""
    totals = Totals(1, 1, 1, 1, 5, 9)
    properties, _ = applied(State.FAILED, Patch({"group": "new"}, "1-0"), totals=totals)
    assert (properties["state"], properties["timeRange"]) == ("failed", {"startTime": 5, "endTime": 9})
