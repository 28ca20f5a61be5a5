"""The log in Python processes of Spark, which plan reads and run tasks. Nobody configures it there."""

import logging
from typing import Final

log: Final = logging.getLogger("rta_writers")


def let_info_through() -> None:
    """Have what a read skips reach the logs that Spark collects, `spark.tvf.python_worker_logs()`.

    Without `spark.sql.pyspark.worker.logging.enabled` there is no handler, and Python prints warnings only.
    """
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
