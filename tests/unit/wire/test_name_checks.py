"""Names of streams and sessions: which are valid."""

import pytest

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
