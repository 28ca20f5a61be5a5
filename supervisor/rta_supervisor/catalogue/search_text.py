"""The text by which a session is found: kept in a column beside its row, so that a search reads no JSON. Pure."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

MAX_CHARS: Final = 4096
"""Of the text of one session. What comes after it is not found."""

_SEPARATOR: Final = "\n"
"""Before and after each term, so that a search can ask for a whole term, and no match reaches into the next term."""

_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f]+")
_PROPERTIES: Final = ("identifier", "type", "group", "version")


def search_text(identity: str, json: str) -> str:
    """Identity, properties and details of a session, each on a line of its own and in lower case.

    Where the Session JSON can't be read, the identity alone.
    """
    try:
        document = msgspec.json.decode(json)
    except (msgspec.DecodeError, UnicodeError):
        document = None
    terms = [identity, *(_terms(document) if isinstance(document, dict) else ())]
    text = _SEPARATOR.join(map(_normalize, terms))[:MAX_CHARS]
    return f"{_SEPARATOR}{text}{_SEPARATOR}"


def substring_term(text: str) -> str:
    """What to look for in search texts where a part of a term is enough."""
    return _normalize(text)


def detail_term(name: str, value: str) -> str:
    """What to look for in search texts where a detail has to have exactly this value."""
    return f"{_SEPARATOR}{_normalize(f'{name}={value}')}{_SEPARATOR}"


def _terms(document: dict[str, Any]) -> Iterator[str]:
    yield from (value for name in _PROPERTIES if isinstance(value := document.get(name), str))
    yield from _pairs(document.get("details"))
    sections = document.get("extDetails")
    for section, values in sections.items() if isinstance(sections, dict) else ():
        yield from (f"{section}.{pair}" for pair in _pairs(values))


def _pairs(values: Any) -> Iterator[str]:
    for name, value in values.items() if isinstance(values, dict) else ():
        yield f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"


def _normalize(text: str) -> str:
    return _CONTROL_CHARACTERS.sub(" ", text).casefold()
