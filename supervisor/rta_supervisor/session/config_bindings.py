"""Which configurations a session is bound to: read from its JSON, and changed where a client binds one. Pure."""

from typing import Any, Final

import msgspec

from rta_wire import errors, keys, limits, name_checks, session

PROPERTY: Final = "configBindings"
IDENTIFIER: Final = "identifier"
OFFSET: Final = "channelOffset"


class ConfigBinding(msgspec.Struct, frozen=True):
    """A configuration that describes channels of a session."""

    identifier: str
    channelOffset: int = 0  # noqa: N815 - a name of the wire
    """What is added to the ids of its channels."""


class _BoundSession(msgspec.Struct):
    configBindings: list[ConfigBinding] | None = None  # noqa: N815 - a name of the wire


def check_count(properties: session.Json) -> None:
    """Raise where properties that a client sent bind a session to too many configurations."""
    bindings = properties.get(PROPERTY)
    if isinstance(bindings, list) and len(bindings) > limits.SESSION_MAX_CONFIGS:
        reason = f"it has {len(bindings)} bindings, more than {limits.SESSION_MAX_CONFIGS}"
        raise errors.BadSessionJson(where=f"$.{PROPERTY}", reason=reason)


def bindings_in(document: bytes | str) -> list[ConfigBinding]:
    """The bindings in a Session JSON; none where it can't be read."""
    if PROPERTY.encode() not in (document.encode() if isinstance(document, str) else document):
        return []
    try:
        return msgspec.json.decode(document, type=_BoundSession).configBindings or []
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []


def published_in(document: bytes | str) -> str:
    """The identifier of the configuration that a client bound, where only the Session JSON is left to tell: the last
    one without an offset that can have been published here. Empty where there is none."""
    bindings = bindings_in(document)
    own = [
        binding.identifier
        for binding in bindings
        if not binding.channelOffset and name_checks.is_config_identifier(binding.identifier)
    ]
    return own[-1] if own else ""


def bind(document: session.Json, identifier: str, previous: str) -> list[Any]:
    """The bindings of a session that a client binds to a configuration.

    It takes the place of `previous`, which the client bound before; those that a user set by hand stay.
    """
    bindings = list(document.get(PROPERTY) or ())
    replaced = {IDENTIFIER: previous, OFFSET: 0}
    places = [place for place, binding in enumerate(bindings) if {OFFSET: 0, **binding} == replaced]
    if any(binding[IDENTIFIER] == identifier for binding in bindings):
        return [binding for place, binding in enumerate(bindings) if place not in places or previous == identifier]
    new = {IDENTIFIER: identifier, OFFSET: 0}
    if not previous or not places:
        return [*bindings, new]
    bindings[places[0]] = new
    return bindings


def state_field(document: bytes) -> str:
    """The field `CONFIGS` of the folded state of a session with this JSON."""
    return msgspec.json.encode(identifiers_in(document)).decode()


def identifiers_in(document: bytes | str) -> list[str]:
    """The identifiers of all configurations that a Session JSON binds, each once."""
    return list(dict.fromkeys(binding.identifier for binding in bindings_in(document)))


def parse_state_field(raw: bytes | None) -> list[str]:
    """The identifiers in the field `CONFIGS`."""
    return msgspec.json.decode(raw, type=list[str]) if raw else []


def changed_fields(before: bytes, after: bytes) -> dict[str, str]:
    """The fields of the folded state that follow a change of Session JSON."""
    mark = PROPERTY.encode()
    return {keys.CONFIGS: state_field(after)} if mark in before or mark in after else {}
