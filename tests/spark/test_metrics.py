"""What writers did reaches the driver, the progress of a streaming query, and the SQL page of Spark's UI."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rta_writers
from rta_writers.spark import metrics as spark_metrics
from rta_writers.spark import ui_metrics
from rta_writers.write.task_result import TaskStats
from tests.spark import frames
from tests.support.waiting import wait_until

ROWS = 1000


def metrics_on_page(spark: SparkSession) -> list[dict[str, str]]:
    """Metrics of ours on the SQL page, of each execution that has some."""
    store = spark._jsparkSession.sharedState().statusStore()
    by_execution = []
    executions = store.executionsList()
    for execution in (executions.apply(index) for index in range(executions.size())):
        values = store.executionMetrics(execution.executionId())
        metrics = [execution.metrics().apply(index) for index in range(execution.metrics().size())]
        ours = {
            metric.name(): values.apply(metric.accumulatorId())
            for metric in metrics
            if metric.name().startswith("rta ") and values.contains(metric.accumulatorId())
        }
        if ours:
            by_execution.append(ours)
    return by_execution


@pytest.fixture
def new_on_page(spark: SparkSession) -> Callable[[int], list[dict[str, str]]]:
    """Waits until so many more executions are on the page, all of their samples with them."""
    before = len(metrics_on_page(spark))

    def wait(samples: int) -> list[dict[str, str]]:
        def complete() -> list[dict[str, str]] | None:
            ours = metrics_on_page(spark)[before:]
            return ours if sum(int(metrics["rta samples"].replace(",", "")) for metrics in ours) >= samples else None

        return wait_until(complete, timeout_s=60, what="metrics on the page") or []

    return wait


def test_a_batch_is_counted_on_the_driver_and_shown_on_the_page(
    spark: SparkSession,
    sessions: rta_writers.SessionClient,
    new_on_page: Callable[[int], list[dict[str, str]]],
) -> None:
    """Samples, bursts, bytes, ratio, retries and duplicates of all tasks; the second run of a job finds duplicates."""
    counters = rta_writers.register(spark)
    with sessions.session("run-1", stream="rig") as session:
        for _ in range(2):
            frames.long(spark, ROWS).write.format("rta").mode("append").options(**session.options, job="again").save()
    counted = counters.as_dict()
    assert (counted["rows"], counted["samples"], counted["duplicate_rows"], counted["retries"]) == (
        2 * ROWS,
        ROWS,
        ROWS,
        0,
    )
    assert counted["bursts"] >= 2
    assert counted["ratio"] == counted["raw_bytes"] / counted["stored_bytes"] > 1
    first = new_on_page(ROWS)[0]
    assert set(first) == {name for name, _ in ui_metrics.METRIC_TYPES}
    assert (first["rta samples"], first["rta retries"], first["rta duplicate rows refused"]) == ("1,000", "0", "0")
    assert int(first["rta bursts"]) == counted["bursts"]
    wait_until(
        lambda: metrics_on_page(spark)[-1]["rta duplicate rows refused"] == "1,000", timeout_s=60, what="the second run"
    )


def test_each_epoch_of_a_query_is_in_its_progress_and_on_the_page(
    spark: SparkSession,
    sessions: rta_writers.SessionClient,
    tmp_path: Path,
    new_on_page: Callable[[int], list[dict[str, str]]],
) -> None:
    """Two files, a file at a time: two epochs, with the rows of one each."""
    counters = rta_writers.register(spark)
    for _ in range(2):
        frames.long(spark, ROWS, partitions=1).write.mode("append").parquet(str(tmp_path / "in"))
    source = spark.readStream.schema(frames.SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    with sessions.session("run-1", stream="rig") as session:
        query = (
            source.writeStream.format("rta")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .options(**session.options)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    progress = [epoch for epoch in counters.progress(query) if epoch["numInputRows"]]
    assert [(epoch["batchId"], epoch["rta"]["samples"]) for epoch in progress] == [(0, ROWS), (1, ROWS)]
    assert all(epoch["rta"]["ratio"] > 1 for epoch in progress)
    assert [epoch["rta samples"] for epoch in new_on_page(2 * ROWS)] == ["1,000", "1,000"]


def test_each_number_stands_beside_its_name() -> None:
    """The ratio in tenths, as Spark wants it, and none where nothing was stored."""
    effort = TaskStats(rows=1, samples=2, bursts=3, raw_bytes=250, stored_bytes=100, retries=6, duplicate_rows=7)
    assert dict(zip((name for name, _ in ui_metrics.METRIC_TYPES), ui_metrics.values(effort), strict=True)) == {
        "rta samples": 2,
        "rta bursts": 3,
        "rta bytes before compression": 250,
        "rta bytes stored": 100,
        "rta compression ratio": 25,
        "rta retries": 6,
        "rta duplicate rows refused": 7,
    }
    assert ui_metrics.values(TaskStats()) == (0,) * len(ui_metrics.METRIC_TYPES)


def test_counters_of_old_epochs_are_forgotten(spark: SparkSession) -> None:
    """A query that runs for months costs no more memory: the newest are kept."""
    counted = spark_metrics.Metrics(spark.sparkContext)
    for epoch in range(spark_metrics.EPOCHS_KEPT + 1):
        counted._add_task(spark_metrics.TaskMetrics(TaskStats(samples=1), query="q", epoch=epoch))
    query = types.SimpleNamespace(id="q", recentProgress=[{"batchId": 0}, {"batchId": 1}, {"batchId": epoch}])
    assert [progress["rta"]["samples"] for progress in counted.progress(query)] == [0, 1, 1]
    assert counted.effort().samples == spark_metrics.EPOCHS_KEPT + 1


@pytest.mark.parametrize("lacks", ["a class", "a field"])
def test_a_spark_without_such_a_page_is_told_of_once(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, lacks: str
) -> None:
    """A Spark without the events of the SQL page is logged once; the counters of the driver go on."""
    context: Any = spark.sparkContext
    metrics = ui_metrics.UiMetrics(spark)
    metrics._jvm = jvm = ui_metrics.Jvm(spark)
    if lacks == "a class":
        jvm.query_execution = context._jvm.nothing.of.this.kind
    else:
        jvm.query_execution = lambda _: spark.range(1)._jdf.queryExecution()
        jvm.to_json = lambda _: "{}"
    for _ in range(2):
        metrics.show(1, TaskStats(rows=1))
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_connection_that_spark_closes_is_no_error(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    """A connection that Spark closes when it stops a query prints no traceback; other errors do as before."""
    server: Any = spark.sparkContext._accumulatorServer
    for error in (EOFError(), ValueError("something else")):
        try:
            raise error
        except (EOFError, ValueError):
            server.handle_error(None, ("127.0.0.1", 1))
    output = capfd.readouterr().err
    assert "EOFError" not in output
    assert "something else" in output
