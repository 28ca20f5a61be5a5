"""Which names of streams, sessions, units and principals are valid. `keys` makes names in Redis of them."""

import re
from typing import Final

from rta_wire import errors, limits, quoting

_STREAM_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{limits.STREAM_NAME_MAX_CHARS - 1}}}")
_ESCAPE: Final = "0x"
_TO_ESCAPE: Final = re.compile(rf"(?:{_ESCAPE})*[._-]")
_ESCAPED: Final = re.compile(rf"(?:{_ESCAPE})+[._-]")
_PRINCIPAL: Final = re.compile(r"[\w.-]+")
BRACES: Final = re.compile(r"[{}]")
_REQUEST_ID: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{limits.REQUEST_ID_MAX_CHARS}}}")
_CONFIG_IDENTIFIER: Final = re.compile(rf"[0-9a-f]{{{limits.CONFIG_IDENTIFIER_CHARS}}}")
CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_stream_name(name: str) -> str:
    """The name of a stream. Raises `BadName` if it is not valid, as the other checks here do."""
    if not _STREAM_NAME.fullmatch(name):
        raise _bad_name(
            "Stream name",
            name,
            "it starts with a letter or digit, goes on with letters, digits, '.', '_' and '-', "
            f"and has at most {limits.STREAM_NAME_MAX_CHARS} characters",
        )
    return name


def escape_stream_name(text: str) -> str:
    """The name of a stream for a text that may begin with '.', '_' or '-': those get `0x` in front, others stay.

    No two texts have the same name: one that looks as if it were escaped gets `0x` too. `unescape_stream_name` gives
    the text back. Raises `BadName` where the result is not valid for another reason.
    """
    return check_stream_name(_ESCAPE + text if _TO_ESCAPE.match(text) else text)


def unescape_stream_name(name: str) -> str:
    """The text that `escape_stream_name` made the name of a stream from."""
    return name.removeprefix(_ESCAPE) if _ESCAPED.match(name) else name


def check_request_id(request_id: str, what: str = "Request id") -> str:
    """The id of a request, if it is valid. `what`: how an error names it."""
    if not _REQUEST_ID.fullmatch(request_id):
        raise _bad_name(
            what,
            request_id,
            f"it has 1 to {limits.REQUEST_ID_MAX_CHARS} characters: letters, digits, '.', '_' and '-'",
        )
    return request_id


def check_identity(identity: str) -> str:
    """The identity of a session, if it is valid."""
    return _check_text("Identity", identity, limits.IDENTITY_MAX_BYTES)


def check_unit(unit: str) -> str:
    """The name of a unit, if it is valid."""
    return _check_text("Unit", unit, limits.UNIT_MAX_BYTES)


def check_external_id(external_id: str) -> str:
    """An external id, if it is valid."""
    return _check_text("External id", external_id, limits.IDENTITY_MAX_BYTES)


def is_config_identifier(text: str) -> bool:
    """Whether a text can be the identifier of a configuration that was published here: a hash."""
    return _CONFIG_IDENTIFIER.fullmatch(text) is not None


def check_config_identifier(identifier: str) -> str:
    """The identifier of a configuration that was published here, if it is valid."""
    if not is_config_identifier(identifier):
        reason = f"it has {limits.CONFIG_IDENTIFIER_CHARS} hexadecimal digits"
        raise _bad_name("Configuration identifier", identifier, reason)
    return identifier


def check_principal(principal: str) -> str:
    """The name of a principal, if it is valid. It is a part of patterns of keys in ACLs, where other characters would
    match keys of others or end the pattern."""
    _check_text("Principal", principal, limits.IDENTITY_MAX_BYTES)
    if not _PRINCIPAL.fullmatch(principal):
        reason = "it is a part of key patterns in ACLs, and has letters, digits, '.', '_' and '-' only"
        raise _bad_name("Principal", principal, reason)
    return principal


def _check_text(what: str, value: str, max_bytes: int) -> str:
    # Nearly every name passes here, and every report has two.
    if 1 <= len(value) <= max_bytes and value.isascii() and value.isprintable() and not BRACES.search(value):
        return value
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise _bad_name(what, value, "it is not valid UTF-8") from error
    if not 1 <= size <= max_bytes:
        raise _bad_name(what, value, f"it has {size} bytes of UTF-8, not 1 to {max_bytes}")
    if CONTROL_CHARACTERS.search(value) or BRACES.search(value):
        raise _bad_name(what, value, "control characters and braces are not allowed")
    return value


def _bad_name(what: str, value: str, reason: str) -> errors.BadName:
    return errors.BadName(what=what, value=quoting.cut(value, quoting.NAME_MAX_CHARS), reason=reason)
