"""Structured logs: JSON lines for machines, colours on a terminal. Event names are fixed, facts are fields."""

import logging
import sys
from typing import Any

import structlog

from rta_supervisor import settings as settings_

PLAIN = structlog.dev.plain_traceback
"""The default shows the local variables of every frame, and secrets among them."""

Log = structlog.typing.FilteringBoundLogger


def configure(settings: settings_.LogSettings) -> None:
    console = settings.format == "console" or (settings.format == "auto" and sys.stdout.isatty())
    renderer: Any = (
        structlog.dev.ConsoleRenderer(exception_formatter=PLAIN)
        if console
        else structlog.processors.JSONRenderer(default=str)
    )
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not console:
        processors.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=False,
    )


def get(**fields: Any) -> Log:
    log: Log = structlog.get_logger(**fields)
    return log
