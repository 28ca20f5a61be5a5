"""Filters that a reader takes over from Spark: nobody looks at its rows again, so each bound is exact."""

import pytest
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

from rta_writers.read.batches import RowFilter
from rta_writers.spark.pushdown import push_filter

TIME, CHANNEL, SESSION, NUMBER = ("time",), ("channel",), ("session",), ("stream_session_id",)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([GreaterThan(TIME, 5), LessThan(TIME, 9)], RowFilter(start_ns=6, end_ns=8)),
        ([GreaterThanOrEqual(TIME, 5), LessThanOrEqual(TIME, 9)], RowFilter(start_ns=5, end_ns=9)),
        ([GreaterThan(TIME, 5), GreaterThan(TIME, 2), LessThan(TIME, 9), LessThan(TIME, 12)], RowFilter(6, 8)),
        ([EqualTo(TIME, 5), EqualNullSafe(TIME, 5), IsNotNull(TIME)], RowFilter(5, 5)),
        ([EqualTo(TIME, 5), EqualTo(TIME, 6)], RowFilter(6, 5)),
        ([In(CHANNEL, (1, 2, 3)), In(CHANNEL, (2, 3, 4))], RowFilter(channels=frozenset([2, 3]))),
        ([EqualTo(CHANNEL, 1), EqualTo(CHANNEL, 2)], RowFilter(channels=frozenset())),
        (
            [EqualTo(SESSION, "run-1"), EqualNullSafe(NUMBER, 7)],
            RowFilter(sessions=frozenset(["run-1"]), stream_session_ids=frozenset([7])),
        ),
    ],
)
def test_filters_together_leave_what_fits_all_of_them(filters: list[Filter], expected: RowFilter) -> None:
    """Bounds are inclusive, and each filter can only narrow them."""
    row_filter = RowFilter()
    for spark_filter in filters:
        narrowed = push_filter(row_filter, spark_filter)
        assert narrowed is not None
        row_filter = narrowed
    assert row_filter == expected


@pytest.mark.parametrize(
    "spark_filter",
    [
        EqualNullSafe(SESSION, None),
        IsNotNull(SESSION),
        GreaterThan(CHANNEL, 1),
        In(TIME, (1, 2)),
        EqualTo(("value",), 1.0),
        EqualTo(("status_text",), "up"),
    ],
)
def test_what_bounds_can_not_say_is_left_to_spark(spark_filter: Filter) -> None:
    """A filter that is taken over and not kept would let rows through, or lose those of sessions without a name."""
    assert push_filter(RowFilter(), spark_filter) is None
