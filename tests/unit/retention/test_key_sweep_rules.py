"""What becomes of keys that writers made."""

import fnmatch

import msgspec
import pytest

from rta_supervisor.retention import key_sweep_rules
from rta_supervisor.retention.key_sweep_rules import KeyFacts, SweepAction
from rta_wire import keys

NAMES = keys.Keys()
WEEK_S = 7 * 86_400
LARGE = key_sweep_rules.LARGE_BYTES + 1
MADE_BY_WRITERS = {
    NAMES.marks("rig", 7): "rtas:gate:{stream:rig}:7",
    NAMES.fence("rig", 7, "job:0/1"): "rtas:gate:{stream:rig}:7",
    NAMES.staged("rig", 7, "abc"): "rtas:gate:{stream:rig}:7",
    NAMES.staging_manifest("rig", 7, "u", 3): "rtas:gate:{stream:rig}:7",
    NAMES.members("job"): "",
    "rtas:dd:{stream:rig}:no-number": "",
    "rtas:dd:{stream:rig": "",
}


@pytest.mark.parametrize(
    ("ttl_s", "used_bytes", "gate", "is_fence", "action"),
    [
        (-1, 100, "open", False, SweepAction.EXPIRE),
        (-1, LARGE, "", False, SweepAction.EXPIRE),
        (-1, 100, "finished", True, SweepAction.REMOVE),
        (WEEK_S, 100, "open", True, SweepAction.KEEP),
        (WEEK_S, LARGE, "open", False, SweepAction.KEEP),
        (10, LARGE, "open", False, SweepAction.KEEP),
        (10, LARGE, "sealed", False, SweepAction.KEEP),
        (10, LARGE, "other", False, SweepAction.KEEP),
        (WEEK_S, LARGE, "", False, SweepAction.KEEP),
        (WEEK_S, 100, "", True, SweepAction.KEEP),
        (WEEK_S // 2 - 1, LARGE, "", False, SweepAction.REMOVE),
        (WEEK_S // 2 - 1, 100, "", True, SweepAction.REMOVE),
        (WEEK_S // 2 - 1, 100, "", False, SweepAction.KEEP),
        (WEEK_S, LARGE, "finished", False, SweepAction.REMOVE),
        (WEEK_S, 100, "finished", True, SweepAction.REMOVE),
        (WEEK_S, 100, "finished", False, SweepAction.KEEP),
    ],
)
def test_a_key_is_removed_only_where_its_session_is_over(
    ttl_s: int, used_bytes: int, gate: str, is_fence: bool, action: SweepAction
) -> None:
    """Without a gate it may be open for a moment, after a loss: then its keys were used lately."""
    facts = KeyFacts("key", ttl_s, used_bytes, gate=gate, is_fence=is_fence)
    assert key_sweep_rules.decide(facts, WEEK_S) is action
    of_hash = key_sweep_rules.decide(msgspec.structs.replace(facts, is_hash=True), WEEK_S)
    in_parts = used_bytes == LARGE and action is SweepAction.REMOVE
    assert of_hash is (SweepAction.REMOVE_IN_PARTS if in_parts else action)


@pytest.mark.parametrize(("name", "gate"), MADE_BY_WRITERS.items())
def test_keys_of_writers_are_found_with_their_gate(name: str, gate: str) -> None:
    """The pattern of the scan finds them, and each says to which session it belongs."""
    assert key_sweep_rules.is_of_writers(NAMES, name)
    assert fnmatch.fnmatchcase(name, key_sweep_rules.scan_pattern(NAMES))
    assert key_sweep_rules.gate_of(NAMES, name) == gate
    assert key_sweep_rules.is_fence(NAMES, name) is (name == NAMES.fence("rig", 7, "job:0/1"))


@pytest.mark.parametrize(
    "name", [NAMES.session_index(), NAMES.session_state("dd:x"), NAMES.requests("sg:"), "stream:rig", "rtas:ddx"]
)
def test_other_keys_are_left_alone(name: str) -> None:
    assert not key_sweep_rules.is_of_writers(NAMES, name)
