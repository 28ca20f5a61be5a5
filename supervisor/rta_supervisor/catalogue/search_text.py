"""The words of a session by which people look for it: kept beside its row, so that a search reads these and no JSON."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

MAX_CHARS: Final = 4096
"""Of the words of one session. What comes after them is not found."""

_LINE: Final = "\n"
"""Between words: so a whole one can be asked for, and none reaches into the next."""

_CONTROL: Final = re.compile(r"[\x00-\x1f]+")
_NAMES: Final = ("identifier", "type", "group", "version")


def search_text(identity: str, json: str) -> str:
    """Identity, names and details, each on a line of its own and all in lower case. What is no JSON has an identity."""
    try:
        document = msgspec.json.decode(json)
    except (msgspec.DecodeError, UnicodeError):
        document = None
    lines = [identity, *(_words(document) if isinstance(document, dict) else ())]
    text = _LINE.join(map(_plain, lines))[:MAX_CHARS]
    return f"{_LINE}{text}{_LINE}"


def substring_term(text: str) -> str:
    """What to look for where a part of a word will do."""
    return _plain(text)


def detail_term(name: str, value: str) -> str:
    """What to look for where a detail has to have that value, all of it."""
    return f"{_LINE}{_plain(f'{name}={value}')}{_LINE}"


def _words(document: dict[str, Any]) -> Iterator[str]:
    yield from (value for name in _NAMES if isinstance(value := document.get(name), str))
    details = document.get("details")
    yield from _pairs(details)
    further = document.get("extDetails")
    for section, values in further.items() if isinstance(further, dict) else ():
        yield from (f"{section}.{pair}" for pair in _pairs(values))


def _pairs(values: Any) -> Iterator[str]:
    for name, value in values.items() if isinstance(values, dict) else ():
        yield f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"


def _plain(text: str) -> str:
    return _CONTROL.sub(" ", text).casefold()
