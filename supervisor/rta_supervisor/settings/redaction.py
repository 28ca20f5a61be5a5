"""Hides secrets in settings and texts: recognises them by the names of their settings, and passwords inside URLs."""

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

import msgspec

HIDDEN: Final = "***"
MIN_SECRET_CHARS: Final = 4
"""Shorter secrets are not replaced in texts: they would match parts of ordinary words."""

_SECRET_NAME: Final = re.compile(r"(^|_)(password|passphrase|secret|token|key)$")
_PASSWORD: Final = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^/@:\s]*:)(?P<password>[^/\s]*)@", re.IGNORECASE)
_IN_QUERY: Final = re.compile(r"(?P<before>[?&]password=)(?P<password>[^&\s]*)", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a setting holds a secret, by its name."""
    return _SECRET_NAME.search(name) is not None


def without_passwords(text: str) -> str:
    """A text with the passwords of all URLs in it hidden."""
    return _IN_QUERY.sub(rf"\g<before>{HIDDEN}", _PASSWORD.sub(rf"\g<before>{HIDDEN}@", text))


def redacted(name: str, value: Any) -> Any:
    """The value of a setting, with secrets inside it hidden."""
    if isinstance(value, dict):
        return {key: redacted(key, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(name, item) for item in value]
    if isinstance(value, str):
        return HIDDEN if value and is_secret(name) else without_passwords(value)
    return value


def secrets(settings: msgspec.Struct) -> list[str]:
    """Every secret in the settings, the longest first, since one may be part of another."""
    unique = {secret for secret in _secrets("", msgspec.to_builtins(settings)) if len(secret) >= MIN_SECRET_CHARS}
    return sorted(unique, key=len, reverse=True)


def _secrets(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _secrets(key, item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets(name, item)
    elif isinstance(value, str):
        if is_secret(name):
            yield value
        for pattern in (_PASSWORD, _IN_QUERY):
            for match in pattern.finditer(value):
                # A URL holds the password in percent-encoding, a log may hold it decoded.
                yield from {match["password"], unquote(match["password"])}
