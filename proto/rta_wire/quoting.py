"""Texts from outside, cut before they are quoted: in errors, log events, dead letters, tables and pages."""

from typing import Final

TEXT_MAX_CHARS: Final = 1000
"""How much of a text is quoted where nothing else is said."""

NAME_MAX_CHARS: Final = 300
"""How much of a refused name is quoted: more than a valid one has, and enough to see what is wrong with it."""


def cut(text: str, max_chars: int = TEXT_MAX_CHARS) -> str:
    """The text, or as much of its beginning as fits into `max_chars` with how many characters there were."""
    if len(text) <= max_chars:
        return text
    length = f"... ({len(text)} characters)"
    return text[: max_chars - len(length)] + length


def encodable(text: str) -> str:
    """The text with everything escaped that UTF-8 has no bytes for."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def printable(text: str) -> str:
    """The text with every character escaped that ends a line, controls a terminal or can't be seen."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
