"""What must not be shown: recognises secrets by the names of their settings, and passwords inside addresses."""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

import msgspec

HIDDEN: Final = "***"
MIN_SECRET_CHARS: Final = 4
"""A shorter secret would make holes into ordinary words of a log."""

_SECRET_NAME: Final = re.compile(r"(^|_)(password|passphrase|secret|token|key)$")
_PASSWORD: Final = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^/@:\s]*:)(?P<password>[^/\s]*)@", re.IGNORECASE)
_IN_QUERY: Final = re.compile(r"(?P<before>[?&]password=)(?P<password>[^&\s]*)", re.IGNORECASE)


def is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def without_passwords(text: str) -> str:
    """Text with the passwords of the addresses in it hidden."""
    return _IN_QUERY.sub(rf"\g<before>{HIDDEN}", _PASSWORD.sub(rf"\g<before>{HIDDEN}@", text))


def redacted(name: str, value: Any) -> Any:
    """A setting as people may see it."""
    if isinstance(value, dict):
        return {key: redacted(key, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(name, one) for one in value]
    if isinstance(value, str):
        return HIDDEN if value and is_secret(name) else without_passwords(value)
    return value


def secrets(settings: msgspec.Struct) -> list[str]:
    """Every secret among settings, the longest first: one may be part of another."""
    found = {secret for secret in _secrets("", msgspec.to_builtins(settings)) if len(secret) >= MIN_SECRET_CHARS}
    return sorted(found, key=len, reverse=True)


def _secrets(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _secrets(key, one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _secrets(name, one)
    elif isinstance(value, str):
        if is_secret(name):
            yield value
        for pattern in (_PASSWORD, _IN_QUERY):
            for found in pattern.finditer(value):
                # In an address it may be written otherwise than it is.
                yield from {found["password"], unquote(found["password"])}
