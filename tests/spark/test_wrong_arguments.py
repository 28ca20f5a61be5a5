"""What a driver calls on Spark refuses what is no session, no frame and no number, and changes nothing by that."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rta_writers
from rta_wire import errors
from rta_writers.spark import driver, ship_packages
from tests.support.odd_values import ODD_VALUES

CALLS: dict[str, Callable[[SparkSession, Any], Any]] = {
    "register(spark)": lambda _, odd: rta_writers.register(odd),
    "register(tune_spark)": lambda spark, odd: rta_writers.register(spark, tune_spark=odd if odd is not True else None),  # type: ignore[arg-type]
    "tune(spark)": lambda _, odd: rta_writers.tune(odd),
    "ship(spark)": lambda _, odd: rta_writers.ship(odd),
    "pack(folder)": lambda _, odd: ship_packages.pack(odd),
    "check(frame)": lambda _, odd: rta_writers.check(odd),
    "deterministic(frame)": lambda _, odd: rta_writers.deterministic(odd, partitions=2),
    "deterministic(by)": lambda spark, odd: rta_writers.deterministic(spark.range(1), partitions=2, by=odd),
    "metrics.progress(query)": lambda spark, odd: rta_writers.register(spark).progress(odd),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_no_session_frame_or_query_is_refused(
    spark: SparkSession, call: Callable[[SparkSession, Any], Any]
) -> None:
    """None of the odd values can be one."""
    for odd in ODD_VALUES:
        with pytest.raises(errors.Usage):
            call(spark, odd)


@pytest.mark.parametrize("odd", [0, -1, 1.5, True, None, "2", 2**31, float("nan")])
def test_numbers_are_whole_and_within_bounds(spark: SparkSession, odd: Any) -> None:
    """Columns to tune for, and partitions."""
    with pytest.raises(errors.Usage, match=r"'columns' is .*: it has to be a whole number between 1 and"):
        rta_writers.tune(spark, columns=odd)
    with pytest.raises(errors.Usage, match=r"'partitions' is .*: it has to be a whole number between 1 and"):
        rta_writers.deterministic(spark.range(1), partitions=odd)


def test_one_column_can_be_named_without_a_tuple(spark: SparkSession) -> None:
    """And none of them would be no division that can be repeated."""
    assert rta_writers.deterministic(spark.range(3), partitions=2, by="id").columns == ["id"]
    with pytest.raises(errors.Usage, match=r"'by' is \(\): it has to be names of columns"):
        rta_writers.deterministic(spark.range(3), partitions=2, by=())


def test_counters_print_themselves(spark: SparkSession) -> None:
    """On the driver; a task has none to read."""
    metrics = driver.register(spark)
    assert str(metrics).startswith("Metrics(rows=0, samples=0, bursts=0, ")
    task_side = object.__new__(type(metrics))
    task_side.__dict__.update(metrics.__getstate__())
    assert str(task_side) == "Metrics(of a task, which can only add to them)"


def test_packing_needs_a_folder(tmp_path: Path) -> None:
    """One that exists."""
    with pytest.raises(errors.Usage, match=r"'folder' is .*: it has to be a Path of a folder that exists"):
        ship_packages.pack(tmp_path / "missing")
