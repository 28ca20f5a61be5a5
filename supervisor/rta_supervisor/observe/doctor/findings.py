"""Findings of the doctor: what a check found, how bad that is, and what to do about it. Pure.

Fields are named as `doctor --json` prints them.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from rta_wire import errors

OK: Final = "ok"
WARN: Final = "warn"
BAD: Final = "bad"

NAMED_MAX: Final = 3


class Finding(msgspec.Struct, frozen=True):
    """The result of one check."""

    check: str
    level: str
    """`OK`, `WARN` or `BAD`."""
    found: str
    remedy: str = ""
    exit_code: int = 0
    """The exit code of the command if this is the first bad finding."""


def ok(check: str, found: str) -> Finding:
    return Finding(check, OK, found)


def warn(check: str, found: str, remedy: str) -> Finding:
    return Finding(check, WARN, found, remedy)


def bad(check: str, found: str, remedy: str, exit_code: int = errors.BadConfiguration.exit_code) -> Finding:
    return Finding(check, BAD, found, remedy, exit_code)


def first_exit_code(findings: Iterable[Finding]) -> int:
    """The exit code of the first bad finding; 0 if there is none."""
    return next((finding.exit_code for finding in findings if finding.level == BAD), 0)


def name_some(names: list[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
