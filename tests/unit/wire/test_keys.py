"""Names in Redis: which share a cluster slot, and slots of keys."""

import itertools

import pytest
from hypothesis import assume, given
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


@pytest.mark.parametrize(
    "prefix",
    [
        *("", " ", "a b", "a\n", "a*", "a?", "a[", "a\\", "a)", "{a", "\udcff", "x" * 129),
        *("stream:", "stream:x", "s", "stream", "streams", "cold:", "c", "cold:x:", "last", "lastStreamSessionId"),
        *("sessions:", "sessions:x:", "sess"),
    ],
)
def test_a_prefix_that_keys_of_others_have_is_refused(prefix: str) -> None:
    """Also one that a pattern of keys can't contain. The error says what to do."""
    with pytest.raises(errors.BadConfiguration, match=r"^keys\.(prefix|session_template): ") as caught:
        keys.Keys(prefix=prefix)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "template",
    [
        *("{identity}", "{identity}:x", "s{identity}", "streams{identity}x", "stream:{identity}", "cold:x{identity}"),
        *("rtas:{identity}", "rtas:sessions:{identity}", "r{identity}", "lastStream{identity}"),
        *("a b{identity}", "a:{identity} ", "a:{identity}*", "a:{identity}\n", "a:{identity}\udcff"),
    ],
)
def test_a_template_that_keys_of_others_have_is_refused(template: str) -> None:
    """No identity may make a session's hash out of a stream, a list of streams or a key of the supervisor."""
    with pytest.raises(errors.BadConfiguration, match=r"^keys\.session_template: "):
        keys.Keys(session_template=template)


pieces = st.lists(
    st.sampled_from(
        ["s", "stream", "streams", ":", "cold", "sessions", "rtas", "last", "lastStreamSessionId", "x", "dlq"]
    ),
    max_size=4,
).map("".join)


@given(prefix=pieces, before=pieces, after=pieces, identity=pieces.filter(bool), stream=names)
def test_keys_that_are_not_refused_have_names_of_their_own(
    prefix: str, before: str, after: str, identity: str, stream: str
) -> None:
    """A session's hash, the supervisor's keys and those of the protocol never have the same name."""
    try:
        ours = keys.Keys(prefix=prefix, session_template=f"{before}{{identity}}{after}")
    except errors.BadConfiguration:
        assume(False)
    protocol = {keys.STREAMS, keys.LAST_STREAM_SESSION_ID, keys.stream(stream), keys.cold_stream(stream)}
    own = {
        *(ours.session_index(), ours.streams_used(), ours.dead_letters(), ours.nodes(), ours.cold_index()),
        *(ours.requests(identity), ours.days(stream), ours.node(identity), ours.members(identity)),
    }
    assert not protocol & own
    assert ours.session(identity) not in protocol | own


def test_no_two_external_ids_share_a_key() -> None:
    """Whatever stands in the name of a principal. Both keys of an id live in one slot."""
    names = keys.Keys()
    pairs = list(itertools.product(("a", "a:b", "a%3Ab", "a%253Ab", "a%"), ("c", "b:c", "3Ab:c", ":c")))
    assert len({names.external(*pair) for pair in pairs}) == len(pairs)
    assert names.external("rig-4", "job: 7") == "rtas:ext:rig-4:job: 7", "the key that version 0.1.0 has"
    for pair in pairs:
        assert keys.key_slot(names.external(*pair)) == keys.key_slot(names.external_created(*pair))
