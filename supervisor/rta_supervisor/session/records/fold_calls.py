"""Cuts reports into calls of the server function that folds them: a call is about a limited number of sessions and
units, because Redis serves nobody else meanwhile. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rta_wire.control.report_merge import SessionKey
from rta_wire.control.totals import Totals

CALL_UNITS: Final = 100
"""Units in one call, at most."""

UnitReports = tuple[SessionKey, Mapping[str, Totals]]
"""Totals of some units of one session."""


def split(reports: Mapping[SessionKey, Mapping[str, Totals]]) -> list[UnitReports]:
    """The reports, those of a session with many units in several parts."""
    parts: list[UnitReports] = []
    for key, units in reports.items():
        if len(units) <= CALL_UNITS:
            parts.append((key, units))
            continue
        items = list(units.items())
        parts += [(key, dict(items[at : at + CALL_UNITS])) for at in range(0, len(items), CALL_UNITS)]
    return parts


def group(reports: Sequence[UnitReports], max_sessions: int) -> Iterator[list[UnitReports]]:
    """The reports in order, in groups for one call each."""
    call: list[UnitReports] = []
    units = 0
    for part in reports:
        count = len(part[1])
        if call and (len(call) >= max_sessions or units + count > CALL_UNITS):
            yield call
            call, units = [], 0
        call.append(part)
        units += count
    if call:
        yield call
