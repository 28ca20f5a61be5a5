"""Filters of a query that the reader applies instead of Spark: the reader with Spark's hook, and their translation."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import (
    DataSourceReader,
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

from rta_writers.options.read import ReadForm
from rta_writers.read import batches
from rta_writers.read.batches import RowFilter
from rta_writers.spark import reader

KEEPS_QUERIES_APART: Final = hasattr(DataSourceReader, "pushLimit")
"""Whether filters of one query stay with it. Up to Spark 4.3 a frame has one reader for all its queries: filters that
the reader took for one of them are applied to the next ones too, and these lack rows. The version that gave readers
`pushLimit` has a reader for each query."""

_TIME: Final = ("time",)
_NEVER_NULL: Final = {
    _TIME,
    ("channel",),
    ("value",),
    (batches.STREAM_SESSION_ID,),
    ("event_definition_id",),
    ("entry",),
}
_SET_FIELDS: Final = {
    ("channel",): "channels",
    (batches.NAME,): "names",
    (batches.SESSION,): "sessions",
    (batches.STREAM_SESSION_ID,): "stream_session_ids",
}
"""The field of a row filter that has the wanted values of a column."""


def push_filter(row_filter: RowFilter, spark_filter: Filter) -> RowFilter | None:
    """The row filter with one of Spark's added, or None where it can't express that."""
    column = getattr(spark_filter, "attribute", None)
    if isinstance(spark_filter, IsNotNull):
        return row_filter if column in _NEVER_NULL else None
    if isinstance(spark_filter, EqualNullSafe) and spark_filter.value is None:
        return None
    if column == _TIME:
        return _push_time(row_filter, spark_filter)
    field = _SET_FIELDS.get(tuple(column or ()))
    values: frozenset[Any] | None = None
    if isinstance(spark_filter, (EqualTo, EqualNullSafe)):
        values = frozenset([spark_filter.value])
    elif isinstance(spark_filter, In):
        values = frozenset(spark_filter.value)
    if field is None or values is None:
        return None
    earlier: frozenset[Any] | None = getattr(row_filter, field)
    return msgspec.structs.replace(row_filter, **{field: values if earlier is None else values & earlier})


def _push_time(row_filter: RowFilter, spark_filter: Filter) -> RowFilter | None:
    if not isinstance(
        spark_filter, (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
    ) or not isinstance(spark_filter.value, int):
        return None
    start_ns: int | None = None
    end_ns: int | None = None
    if isinstance(spark_filter, (EqualTo, EqualNullSafe)):
        start_ns = end_ns = spark_filter.value
    elif isinstance(spark_filter, (GreaterThan, GreaterThanOrEqual)):
        start_ns = spark_filter.value + isinstance(spark_filter, GreaterThan)
    else:
        end_ns = spark_filter.value - isinstance(spark_filter, LessThan)
    starts = [ns for ns in (row_filter.start_ns, start_ns) if ns is not None]
    ends = [ns for ns in (row_filter.end_ns, end_ns) if ns is not None]
    return msgspec.structs.replace(
        row_filter, start_ns=max(starts) if starts else None, end_ns=min(ends) if ends else None
    )


class PushdownReader(reader.BatchReader):
    """A batch reader that takes filters over from Spark.

    Spark refuses a reader that has `pushFilters` unless `spark.sql.python.filterPushdown.enabled` is true. Otherwise
    the data source uses `BatchReader`.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Takes what the reader can apply, and gives back the filters that are left to Spark."""
        is_wide = self._options.form is ReadForm.WIDE
        for spark_filter in filters:
            # In wide form all other columns are channels, called as they may be.
            is_ours = not is_wide or getattr(spark_filter, "attribute", None) == _TIME
            row_filter = push_filter(self._row_filter, spark_filter) if is_ours else None
            if row_filter is None:
                yield spark_filter
            else:
                self._row_filter = row_filter
