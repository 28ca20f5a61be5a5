"""Filters of a query that reach the reader."""

from typing import Any, Final

import msgspec
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from rta_writers.read import batches
from rta_writers.read.batches import RowFilter

_TIME: Final = ("time",)


_NEVER_NULL: Final = {
    ("time",),
    ("channel",),
    ("value",),
    (batches.STREAM_SESSION_ID,),
    ("event_definition_id",),
    ("entry",),
}


def push_filter(bounds: RowFilter, one: Filter) -> RowFilter | None:
    """Bounds that a filter leaves, or None where they can't express it."""
    column = getattr(one, "attribute", None)
    if isinstance(one, IsNotNull):
        return bounds if column in _NEVER_NULL else None
    if isinstance(one, EqualNullSafe) and one.value is None:
        return None
    if column == _TIME:
        return _at_times(bounds, one)
    field = {
        ("channel",): "channels",
        (batches.SESSION,): "sessions",
        (batches.STREAM_SESSION_ID,): "stream_session_ids",
    }.get(tuple(column or ()))
    wanted: frozenset[Any] | None = None
    if isinstance(one, (EqualTo, EqualNullSafe)):
        wanted = frozenset([one.value])
    elif isinstance(one, In):
        wanted = frozenset(one.value)
    if field is None or wanted is None:
        return None
    before: frozenset[Any] | None = getattr(bounds, field)
    return msgspec.structs.replace(bounds, **{field: wanted if before is None else wanted & before})


def _at_times(bounds: RowFilter, one: Filter) -> RowFilter | None:
    if not isinstance(
        one, (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
    ) or not isinstance(one.value, int):
        return None
    start: int | None = None
    end: int | None = None
    if isinstance(one, (EqualTo, EqualNullSafe)):
        start = end = one.value
    elif isinstance(one, (GreaterThan, GreaterThanOrEqual)):
        start = one.value + isinstance(one, GreaterThan)
    else:
        end = one.value - isinstance(one, LessThan)
    starts = [ns for ns in (bounds.start_ns, start) if ns is not None]
    ends = [ns for ns in (bounds.end_ns, end) if ns is not None]
    return msgspec.structs.replace(bounds, start_ns=max(starts) if starts else None, end_ns=min(ends) if ends else None)
