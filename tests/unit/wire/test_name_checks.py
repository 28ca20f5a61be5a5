"""Names of streams and sessions: which are valid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors, name_checks


@pytest.mark.parametrize("name", ["a", "Rig-4", "rocket.engine_2", "0", "x" * 128])
def test_good_stream_names(name: str) -> None:
    """Letters, digits, dot, underscore and dash make a stream name."""
    assert name_checks.check_stream_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a:b", "a{b}", "a\n", "ä", "x" * 129])
def test_bad_stream_names(name: str) -> None:
    """Anything else is refused, a trailing newline included."""
    with pytest.raises(errors.BadName):
        name_checks.check_stream_name(name)


@pytest.mark.parametrize("identity", ["", "a\n", "a{", "}", "\x00", "\x9f", "ä" * 129, "\ud800", "\u2028"])
def test_bad_identities(identity: str) -> None:
    """Control characters, braces, lone surrogates and more than 256 bytes are refused."""
    with pytest.raises(errors.BadName):
        name_checks.check_identity(identity)


@pytest.mark.parametrize("principal", ["default", "rig-4", "Rig_4.b", "prüfstand", "0", "x" * 256])
def test_good_principals(principal: str) -> None:
    """Letters, digits, dot, underscore and dash, as conf/acl says."""
    assert name_checks.check_principal(principal) == principal


@pytest.mark.parametrize(
    "principal", ["", " ", "a b", "a*", "a?", "a[b]", "a:b", "a{b", "a\\", "a)", "a\n", "a\x00", "\udcff", "x" * 257]
)
def test_bad_principals(principal: str) -> None:
    """They are part of patterns of keys in ACLs: others would match keys of others, or end the pattern."""
    with pytest.raises(errors.BadName):
        name_checks.check_principal(principal)


TOPICS = st.builds(
    lambda escapes, first, rest: "0x" * escapes + first + rest,
    st.integers(0, 3),
    st.sampled_from("_.-0xa"),
    st.text("_.-0xaZ9", max_size=5),
)


@given(TOPICS, TOPICS)
def test_escaped_stream_names_are_valid_reversible_and_never_the_same(text: str, other: str) -> None:
    """Whatever a text begins with, and even if it looks escaped already."""
    name = name_checks.escape_stream_name(text)
    assert name_checks.check_stream_name(name) == name
    assert name_checks.unescape_stream_name(name) == text
    assert (name == name_checks.escape_stream_name(other)) == (text == other)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cars-0", "cars-0"),
        ("__consumer_offsets-3", "0x__consumer_offsets-3"),
        (".hidden", "0x.hidden"),
        ("-a", "0x-a"),
        ("0x_a", "0x0x_a"),
        ("0xa", "0xa"),
    ],
)
def test_only_texts_that_begin_with_a_mark_are_escaped(text: str, name: str) -> None:
    """The form that the documentation promises; names that are valid stay readable."""
    assert name_checks.escape_stream_name(text) == name


@pytest.mark.parametrize("text", ["", "a/b", "_a b", "x" * 129, "_" + "x" * 126])
def test_what_else_is_wrong_with_a_name_is_refused(text: str) -> None:
    """Escaping does not make other characters or more of them valid."""
    with pytest.raises(errors.BadName):
        name_checks.escape_stream_name(text)
