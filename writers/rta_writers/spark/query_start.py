"""Lets `start()` of a streaming query raise what its writer would refuse, in the thread that calls it.

Spark asks a sink in Python for its writer in the thread of the query, after `start()` has returned. No code of a data
source runs before that, so the method of PySpark is wrapped. Queries into other sinks are started as they were.
"""

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql.utils import to_str

log: Final = logging.getLogger("rta_writers")

CHECKED_FORMAT: Final = "rta_checked_format"
"""Set on a method that is wrapped already."""

Sink = tuple[str, dict[str, str]]
"""Format and options."""


def check_at_start(
    writer_class: Any, name: str, sink: Callable[[Any], Sink | None], check: Callable[[Any, dict[str, str]], None]
) -> None:
    """Make `start()` of a `DataStreamWriter` whose format has this name call `check` with it and all options.

    `sink` gives what was set on the writer so far, or None where this Spark does not tell.
    """
    start = writer_class.start
    if hasattr(start, CHECKED_FORMAT):
        return
    signature = inspect.signature(start)

    @functools.wraps(start)
    def checked_start(writer: Any, *args: Any, **named: Any) -> Any:
        given = signature.bind(writer, *args, **named).arguments
        if (known := sink(writer)) is not None:
            format_name, options = known
            if (given.get("format") or format_name).lower() == name:
                check(writer, options | {key: to_str(value) or "" for key, value in given.get("options", {}).items()})
        return start(writer, *args, **named)

    setattr(checked_start, CHECKED_FORMAT, name)
    writer_class.start = checked_start


def driver_sink(writer: Any) -> Sink | None:
    """What was set on a writer in the JVM of this driver. Spark has no public way to it."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415 - none over Spark Connect

    java_writer = writer._jwrite  # noqa: SLF001 - see above
    values = []
    try:
        for name in ("source", "extraOptions"):
            field = java_writer.getClass().getDeclaredField(name)
            field.setAccessible(True)
            values.append(field.get(java_writer))
        converters = writer._spark._jvm.scala.jdk.javaapi.CollectionConverters  # noqa: SLF001
        return values[0], dict(converters.asJava(values[1].originalMap()))
    except (Py4JError, TypeError) as error:
        log.debug("this Spark does not tell the options of a query, which are checked when it runs: %r", error)
        return None


def remote_sink(writer: Any) -> Sink:
    """What was set on a writer of Spark Connect."""
    request = writer._write_proto  # noqa: SLF001 - there is no public way to it
    return request.format, dict(request.options)
