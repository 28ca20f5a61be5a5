"""Names in Redis: which share a cluster slot, and slots of keys."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors, keys


@given(
    st.text(
        st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="{}"), min_size=1, max_size=64
    )
)
def test_a_session_and_its_state_share_a_slot(identity: str) -> None:
    """Functions touch both, so a cluster must keep both in one place."""
    names = keys.Keys()
    slot = pytest.importorskip("redis.crc").key_slot
    assert slot(names.session(identity).encode()) == slot(names.session_state(identity).encode())


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True), st.integers(1, 2**40), st.text(max_size=9))
def test_a_stream_and_its_helpers_share_a_slot(name: str, number: int, unit: str) -> None:
    """An append touches the stream, the gate, the marks and the fence in one transaction."""
    crc = pytest.importorskip("redis.crc")
    names = keys.Keys()
    helpers = [names.gate(name, number), names.marks(name, number), names.fence(name, number, unit)]
    slots = {crc.key_slot(key.encode(errors="replace")) for key in [keys.stream(name), *helpers]}
    assert len(slots) == 1


@pytest.mark.parametrize("template", ["sessions", "a{identity}b{identity}", "{x}{identity}", "}{identity}"])
def test_a_template_that_would_lose_the_slot_is_refused(template: str) -> None:
    """The template names the identity once and has no other brace."""
    with pytest.raises(errors.BadConfiguration):
        keys.Keys(session_template=template)


@pytest.mark.parametrize(
    ("key", "slot"),
    [("", 0), ("foo", 12182), ("123456789", 12739), ("{user1000}.following", 3443), ("{user1000}.followers", 3443)],
)
def test_slots_are_those_of_redis(key: str, slot: int) -> None:
    """As CLUSTER KEYSLOT answers."""
    assert keys.key_slot(key) == slot


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
texts = st.text(min_size=1, max_size=20).filter(lambda text: not set(text) & set("{}\ud800"))


@given(stream=names, identity=texts, unit=texts, number=st.integers(1, 2**53), prefix=st.sampled_from(["rtas:", "x"]))
def test_what_is_used_together_lives_in_one_slot(
    stream: str, identity: str, unit: str, number: int, prefix: str
) -> None:
    """Keys of one function, one transaction or one command never meet CROSSSLOT."""
    ours = keys.Keys(prefix=prefix)
    place = stream, number
    beside_a_stream = {
        *(ours.gate(*place), ours.marks(*place), ours.fence(*place, unit), ours.published(*place)),
        *(ours.staged(*place, "attempt"), ours.staging_manifest(*place, unit, 7)),
    }
    assert {keys.key_slot(key) for key in beside_a_stream} == {keys.key_slot(keys.stream(stream))}
    assert keys.key_slot(ours.session_state(identity)) == keys.key_slot(ours.session(identity))
    for lane in (ours.requests(identity), ours.reports(identity)):
        assert keys.key_slot(ours.control_counters(lane)) == keys.key_slot(lane)


def test_a_prefix_with_braces_is_refused() -> None:
    """It would become a hash tag and tear apart what belongs together."""
    with pytest.raises(errors.BadConfiguration, match=r"keys\.prefix"):
        keys.Keys(prefix="{x}:")


def test_no_two_external_ids_share_a_key() -> None:
    """Whatever stands in the name of a principal. Both keys of an id live in one slot."""
    names = keys.Keys()
    pairs = list(itertools.product(("a", "a:b", "a%3Ab", "a%253Ab", "a%"), ("c", "b:c", "3Ab:c", ":c")))
    assert len({names.external(*pair) for pair in pairs}) == len(pairs)
    assert names.external("rig-4", "job: 7") == "rtas:ext:rig-4:job: 7", "the key that version 0.1.0 has"
    for pair in pairs:
        assert keys.key_slot(names.external(*pair)) == keys.key_slot(names.external_created(*pair))
