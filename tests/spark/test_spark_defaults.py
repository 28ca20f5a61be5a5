"""conf/spark-defaults.conf: Spark knows each name and takes each value, and each line has a reason."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rta_writers.spark import driver

pytestmark = pytest.mark.spark

LINES = (Path(__file__).parents[2] / "conf/spark-defaults.conf").read_text().splitlines()
SETTINGS = dict(line.split(" ", 1) for line in LINES if line and not line.startswith("#"))


def entry(spark: SparkSession, name: str) -> Any:
    """Spark's own record of a setting, None where it has none."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.internal.SQLConf.get()  # registers the names of SQL
    return jvm.org.apache.spark.internal.config.ConfigEntry.findEntry(name)


@pytest.mark.parametrize("name", SETTINGS)
def test_spark_takes_it(spark: SparkSession, name: str) -> None:
    """The name is registered, and its converter reads the value. Another name and another value are found."""
    known = entry(spark, name)
    assert known is not None, "Spark has no such setting"
    known.valueConverter().apply(SETTINGS[name])
    assert entry(spark, f"{name}x") is None


def test_each_line_has_a_reason() -> None:
    """A comment stands above each setting, those included that are left to the reader."""
    for before, line in itertools.pairwise(LINES):
        assert not line.startswith("spark.") or before.startswith("# "), line


def test_it_agrees_with_what_tune_sets(spark: SparkSession) -> None:
    """Whatever `tune` sets for any frame has the same value here; what depends on the columns is not set here."""
    long, wide = (driver.tune(spark.newSession(), columns=columns) for columns in (3, 500))
    assert {name: value for name, value in long.items() if wide[name] == value}.items() <= SETTINGS.items()
    assert not {name for name in wide if wide[name] != long.get(name)} & SETTINGS.keys()
