"""Marks as writers left them in Redis, read with care: one that can't be read is left out, and a time that can't be
right widens no time range. Pure.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from rta_wire import errors, name_checks
from rta_wire.control.totals import Mark, Totals

QUOTED_UNIT_MAX_CHARS = 80


class MarkPage(NamedTuple):
    """Some of the marks of a session."""

    units: dict[str, Totals]
    """What stands in the stream, by unit."""

    unreadable: tuple[str, ...]
    """Why marks were left out, one sentence for each."""

    implausible_units: tuple[str, ...]
    """Units whose times were left out. Their counts stand in `units`: the data is in the stream whatever its times."""


def parse(raw_marks: Mapping[bytes, bytes], earliest_ns: int, latest_ns: int) -> MarkPage:
    """Marks by unit. Times are to be between `earliest_ns` and `latest_ns`, as those of reports are."""
    units: dict[str, Totals] = {}
    unreadable: list[str] = []
    implausible: list[str] = []
    for raw_unit, raw_mark in raw_marks.items():
        try:
            unit = name_checks.check_unit(raw_unit.decode())
            totals = Mark.from_text(raw_mark.decode()).totals
        except (errors.BadMessage, errors.BadName, UnicodeDecodeError) as error:
            unreadable.append(f"unit {raw_unit[:QUOTED_UNIT_MAX_CHARS]!r}: {error}")
            continue
        if totals.time_range_ns is not None and not _is_plausible(totals.time_range_ns, earliest_ns, latest_ns):
            implausible.append(unit)
            totals = msgspec.structs.replace(totals, start_ns=None, end_ns=None)
        units[unit] = totals
    return MarkPage(units, tuple(unreadable), tuple(implausible))


def _is_plausible(time_range_ns: tuple[int, int], earliest_ns: int, latest_ns: int) -> bool:
    start_ns, end_ns = time_range_ns
    return earliest_ns <= start_ns <= end_ns <= latest_ns
