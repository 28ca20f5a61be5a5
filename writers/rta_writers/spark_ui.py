"""Our counters on the SQL page of Spark's UI, beside the node that writes.

Spark has no metrics of their own for data sources in Python. But what its page shows comes from events that any program
on the driver may post: a plan whose nodes name metrics, and values. We post the plan of the running execution with ours
added to its uppermost node, once, and the values of each task that has ended. The page, the REST API and the event log
take them as they take Spark's own, and add them up.
"""

import collections
import logging
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from rta_writers.task import Effort

log: Final = logging.getLogger("rta_writers")

EXECUTIONS_KEPT: Final = 100
TENTHS: Final = 10
"""Spark shows metrics of type average with one digit after the point, and wants them without it."""

SHOWN: Final = (
    ("rta samples", "sum"),
    ("rta bursts", "sum"),
    ("rta bytes before compression", "size"),
    ("rta bytes stored", "size"),
    ("rta compression ratio", "average"),
    ("rta retries", "sum"),
    ("rta duplicate rows refused", "sum"),
)
"""Names and Spark's types of the metrics, in the order of `values`."""


def values(effort: Effort) -> tuple[int, ...]:
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


class SqlPage:
    """Posts events through the driver's gateway to the JVM. Where that has no such events, says so once and rests."""

    def __init__(self, spark: Any) -> None:
        self._jvm = spark.sparkContext._jvm  # noqa: SLF001 - there is no other way to the page
        self._bus = spark.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001
        self._ids: list[int] = []
        self._announced: collections.deque[int] = collections.deque(maxlen=EXECUTIONS_KEPT)
        self._resting = False

    def show(self, execution: int, effort: Effort) -> None:
        """What one more task of an execution did, while that runs: Spark takes nothing for one that has ended."""
        if self._resting:
            return
        try:
            if execution in self._announced or self._announce(execution):
                self._post_values(execution, effort)
        except (Py4JError, TypeError) as error:
            # TypeError is what calling a class gives that this Spark does not have. The counters themselves go on.
            self._resting = True
            log.warning("Spark's UI can't show what is written: %s", error)

    def _announce(self, execution: int) -> bool:
        sql = self._jvm.org.apache.spark.sql.execution
        query = sql.SQLExecution.getQueryExecution(execution)
        if query is None:
            return False
        if not self._ids:
            self._ids = [self._jvm.org.apache.spark.util.AccumulatorContext.newId() for _ in SHOWN]
        plan = sql.SparkPlanInfo.fromSparkPlan(query.executedPlan())
        ours = [
            sql.metric.SQLMetricInfo(name, number, kind) for number, (name, kind) in zip(self._ids, SHOWN, strict=True)
        ]
        theirs = plan.metrics()
        metrics = [theirs.apply(place) for place in range(theirs.size())]
        shown = sql.SparkPlanInfo(
            plan.nodeName(), plan.simpleString(), plan.children(), plan.metadata(), self._seq([*metrics, *ours])
        )
        text = query.explainString(sql.ExplainMode.fromString("formatted"))
        self._bus.post(sql.ui.SparkListenerSQLAdaptiveExecutionUpdate(execution, text, shown))
        self._announced.append(execution)
        return True

    def _post_values(self, execution: int, effort: Effort) -> None:
        # A pair of objects would be a pair of Integers where the numbers are small, and Spark expects Longs.
        pair = getattr(self._jvm.scala, "Tuple2$mcJJ$sp")
        pairs = [pair(number, value) for number, value in zip(self._ids, values(effort), strict=True)]
        event = self._jvm.org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates
        self._bus.post(event(execution, self._seq(pairs)))

    def _seq(self, items: list[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(items)
