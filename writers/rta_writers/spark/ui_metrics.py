"""Counters of writers on the SQL page of Spark's UI, beside the node that writes.

Spark has no metrics for data sources in Python. But what its page shows comes from events that any program on the
driver may post: a plan whose nodes name metrics, and values. The plan of the running execution is posted once, with the
metrics added to its uppermost node, and the values of each task that has ended. The page, the REST API and the event
log take them as they take Spark's own, and add them up. Events are passed as JSON, the form of the event log: the end
of a task waits for what is posted, and each call to the JVM takes a millisecond of a busy machine.
"""

import collections
import logging
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from rta_writers.write.task_result import TaskStats

log: Final = logging.getLogger("rta_writers")

VALUES_EVENT: Final = "org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates"

EXECUTIONS_KEPT: Final = 100
TENTHS: Final = 10
"""Spark shows metrics of type average with one digit after the point, and wants them without it."""

METRIC_TYPES: Final = (
    ("rta samples", "sum"),
    ("rta bursts", "sum"),
    ("rta bytes before compression", "size"),
    ("rta bytes stored", "size"),
    ("rta compression ratio", "average"),
    ("rta retries", "sum"),
    ("rta duplicate rows refused", "sum"),
)
"""Names and Spark's types of the metrics, in the order of `values`."""


def values(stats: TaskStats) -> tuple[int, ...]:
    """The values of the metrics, in the order of `METRIC_TYPES`."""
    ratio_tenths = round(TENTHS * stats.raw_bytes / stats.stored_bytes) if stats.stored_bytes else 0
    return (
        stats.samples,
        stats.bursts,
        stats.raw_bytes,
        stats.stored_bytes,
        ratio_tenths,
        stats.retries,
        stats.duplicate_rows,
    )


class Jvm:
    """Functions and classes of Spark's JVM that are called, looked up once."""

    def __init__(self, spark: Any) -> None:
        context = spark.sparkContext
        jvm = context._jvm  # noqa: SLF001 - there is no other way to the page
        sql = jvm.org.apache.spark.sql.execution
        self.query_execution = sql.SQLExecution.getQueryExecution
        self.plan_info = sql.SparkPlanInfo.fromSparkPlan
        self.plan_event = sql.ui.SparkListenerSQLAdaptiveExecutionUpdate
        self.formatted_mode = sql.ExplainMode.fromString("formatted")
        self.to_json = jvm.org.apache.spark.util.JsonProtocol.sparkEventToJsonString
        self.from_json = jvm.org.apache.spark.util.JsonProtocol.sparkEventFromJson
        self.new_id = jvm.org.apache.spark.util.AccumulatorContext.newId
        self.post = context._jsc.sc().listenerBus().post  # noqa: SLF001


class UiMetrics:
    """Posts counters of tasks to Spark's UI. Where that Spark has no such events, logs it once and posts no more."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._jvm: Jvm | None = None
        self._metric_ids: list[int] = []
        self._posted_plans: collections.deque[int] = collections.deque(maxlen=EXECUTIONS_KEPT)
        self._is_disabled = False

    def show(self, execution: int, stats: TaskStats) -> None:
        """Add the counters of one task of an execution, while that runs: Spark takes none for one that has ended."""
        if self._is_disabled:
            return
        try:
            jvm = self._jvm = self._jvm or Jvm(self._spark)
            if execution in self._posted_plans or self._post_plan(jvm, execution):
                pairs = list(zip(self._metric_ids, values(stats), strict=True))
                self._post(jvm, {"Event": VALUES_EVENT, "executionId": execution, "accumUpdates": pairs})
        except (Py4JError, TypeError, KeyError) as error:
            # A class that this Spark does not have raises TypeError when it is called, a plan in another form KeyError.
            # The counters of the driver go on.
            self._is_disabled = True
            log.warning("Spark's UI can't show what is written: %r", error)

    def _post_plan(self, jvm: Jvm, execution: int) -> bool:
        """Post the plan of an execution with the metrics added. False where it does not run any more."""
        query = jvm.query_execution(execution)
        if query is None:
            return False
        if not self._metric_ids:
            self._metric_ids = [jvm.new_id() for _ in METRIC_TYPES]
        plan = jvm.plan_info(query.executedPlan())
        event = msgspec.json.decode(
            jvm.to_json(jvm.plan_event(execution, query.explainString(jvm.formatted_mode), plan))
        )
        event["sparkPlanInfo"]["metrics"] += [
            {"name": name, "accumulatorId": metric_id, "metricType": metric_type}
            for metric_id, (name, metric_type) in zip(self._metric_ids, METRIC_TYPES, strict=True)
        ]
        self._post(jvm, event)
        self._posted_plans.append(execution)
        return True

    def _post(self, jvm: Jvm, event: dict[str, Any]) -> None:
        jvm.post(jvm.from_json(msgspec.json.encode(event).decode()))
