"""Keeps two messages of Spark about this data source, which nobody can act on, out of the output of a driver."""

import logging
import sys
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

log: Final = logging.getLogger("rta_writers")

REPLACEMENT_LOGGER: Final = "org.apache.spark.sql.execution.datasources.DataSourceManager"


def ignore_replacements(context: Any) -> None:
    """Keep Spark from warning that a registered data source replaces the one that it found as `pyspark_rta`.

    It would do so at every registration, and whenever a streaming query starts, with a copy of the session. The logger
    has nothing else to say.
    """
    log4j = context._jvm.org.apache.logging.log4j  # noqa: SLF001 - there is no other way to a logger
    try:
        log4j.core.config.Configurator.setLevel(REPLACEMENT_LOGGER, log4j.Level.ERROR)
    except (Py4JError, TypeError) as error:
        log.debug("Spark does not log by log4j: %r", error)


def ignore_closed_connections(context: Any) -> None:
    """Keep a streaming query that is stopped from printing a traceback.

    Spark's JVM sends accumulators of plans and commits from the thread of the query. Stopping a query interrupts the
    thread, which closes the connection; Spark opens another one when it needs it. PySpark's server takes a closed
    connection for an error.
    """
    server = getattr(context, "_accumulatorServer", None)
    if server is None or "handle_error" in vars(server):
        return
    handle_other_error = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exception(), EOFError):
            handle_other_error(request, address)

    server.handle_error = handle_error
