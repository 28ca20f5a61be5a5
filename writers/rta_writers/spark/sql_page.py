"""Our counters on the SQL page of Spark's UI, beside the node that writes.

Spark has no metrics of their own for data sources in Python. But what its page shows comes from events that any program
on the driver may post: a plan whose nodes name metrics, and values. We post the plan of the running execution with ours
added to its uppermost node, once, and the values of each task that has ended. The page, the REST API and the event log
take them as they take Spark's own, and add them up. Events go over as JSON, as the event log holds them: the end of a
task waits for what is posted, and each call to the JVM takes a millisecond of a busy machine.
"""

import collections
import logging
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from rta_writers.write.result import TaskStats

log: Final = logging.getLogger("rta_writers")

VALUES: Final = "org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates"

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


def values(effort: TaskStats) -> tuple[int, ...]:
    """What is shown of an effort."""
    tenths = round(TENTHS * effort.raw_bytes / effort.stored_bytes) if effort.stored_bytes else 0
    return (
        effort.samples,
        effort.bursts,
        effort.raw_bytes,
        effort.stored_bytes,
        tenths,
        effort.retries,
        effort.duplicate_rows,
    )


class Jvm:
    """The few things of Spark's that are called, looked up once."""

    def __init__(self, spark: Any) -> None:
        context = spark.sparkContext
        jvm = context._jvm  # noqa: SLF001 - there is no other way to the page
        sql = jvm.org.apache.spark.sql.execution
        self.running = sql.SQLExecution.getQueryExecution
        self.plan_of = sql.SparkPlanInfo.fromSparkPlan
        self.plan_event = sql.ui.SparkListenerSQLAdaptiveExecutionUpdate
        self.formatted = sql.ExplainMode.fromString("formatted")
        self.to_json = jvm.org.apache.spark.util.JsonProtocol.sparkEventToJsonString
        self.from_json = jvm.org.apache.spark.util.JsonProtocol.sparkEventFromJson
        self.new_id = jvm.org.apache.spark.util.AccumulatorContext.newId
        self.post = context._jsc.sc().listenerBus().post  # noqa: SLF001


class SqlPage:
    """Posts events through the driver's gateway to the JVM. Where that has no such events, says so once and rests."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._jvm: Jvm | None = None
        self._ids: list[int] = []
        self._announced: collections.deque[int] = collections.deque(maxlen=EXECUTIONS_KEPT)
        self._resting = False

    def show(self, execution: int, effort: TaskStats) -> None:
        """What one more task of an execution did, while that runs: Spark takes nothing for one that has ended."""
        if self._resting:
            return
        try:
            jvm = self._jvm = self._jvm or Jvm(self._spark)
            if execution in self._announced or self._announce(jvm, execution):
                pairs = list(zip(self._ids, values(effort), strict=True))
                self._post(jvm, {"Event": VALUES, "executionId": execution, "accumUpdates": pairs})
        except (Py4JError, TypeError, KeyError) as error:
            # TypeError is what calling a class gives that this Spark does not have, KeyError a plan in another form.
            # The counters themselves go on.
            self._resting = True
            log.warning("Spark's UI can't show what is written: %r", error)

    def _announce(self, jvm: Jvm, execution: int) -> bool:
        query = jvm.running(execution)
        if query is None:
            return False
        if not self._ids:
            self._ids = [jvm.new_id() for _ in METRIC_TYPES]
        plan = jvm.plan_of(query.executedPlan())
        event = msgspec.json.decode(jvm.to_json(jvm.plan_event(execution, query.explainString(jvm.formatted), plan)))
        event["sparkPlanInfo"]["metrics"] += [
            {"name": name, "accumulatorId": number, "metricType": kind}
            for number, (name, kind) in zip(self._ids, METRIC_TYPES, strict=True)
        ]
        self._post(jvm, event)
        self._announced.append(execution)
        return True

    def _post(self, jvm: Jvm, event: dict[str, Any]) -> None:
        jvm.post(jvm.from_json(msgspec.json.encode(event).decode()))
