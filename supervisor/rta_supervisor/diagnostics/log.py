"""The structured log: JSON lines for machines, colours on a terminal. Names of events are fixed and listed in
docs/events.md; everything else is in fields.

Control characters are escaped, so that no value from outside leaves its field. Values of secret settings are hidden.
Events that repeat are limited by `log_limiter`.
"""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from rta_supervisor.diagnostics import recent_events
from rta_supervisor.diagnostics.log_limiter import LogLimiter
from rta_supervisor.settings import redaction
from rta_supervisor.settings import settings as settings_
from rta_wire import quoting

Log = structlog.typing.FilteringBoundLogger
EventDict = structlog.typing.EventDict

PRIORITIES: Final = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
"""Levels as priorities of syslog, which the journal reads."""

TRACEBACK_MAX_CHARS: Final = 20_000
LIST_MAX: Final = 50

_limiter = LogLimiter(time.monotonic)


def configure(settings: settings_.LogSettings, secrets: Sequence[str] = ()) -> None:
    """Set up the log of this process, and that of libraries. `secrets` are hidden wherever they stand in an event."""
    is_console = settings.format == "console" or (settings.format == "auto" and sys.stdout.isatty())
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _limited,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _safe(secrets),
            recent_events.RECENT_EVENTS,
            *(_console() if is_console else _json()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_LibraryHandler()], force=True)


def configure_for_command() -> None:
    """Set up the log of a command line, unless a log is set up already: what parts of the supervisor log in it goes to
    standard error. Standard output is what the command prints."""
    if not structlog.is_configured():
        structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


def get(**fields: Any) -> Log:
    """A logger whose events have these fields."""
    log: Log = structlog.get_logger(**fields)
    return log


def bound(**fields: Any) -> contextlib.AbstractContextManager[None]:
    """All events that are logged inside the block, by whatever code, have these fields. Fields of None are left out."""
    present = {name: value for name, value in fields.items() if value is not None}
    return structlog.contextvars.bound_contextvars(**present)


def bind(**fields: Any) -> None:
    """All events that this task and tasks started by it log from now on have these fields."""
    structlog.contextvars.bind_contextvars(**fields)


def log_suppressed(*, is_last: bool = False) -> None:
    """Log how many events of a kind were suppressed, once it has stopped; `is_last`: of every kind."""
    for event, count in _limiter.finished(is_last=is_last):
        get(**event).warning("events_repeated", count=count)


def _limited(_: Any, __: str, event: EventDict) -> EventDict:
    if (admitted := _limiter.admit(event)) is None:
        raise structlog.DropEvent
    return admitted


def _safe(secrets: Sequence[str]) -> Callable[[Any, str, EventDict], EventDict]:
    """A processor that hides secrets and cuts long texts."""

    def hide(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, redaction.HIDDEN)
        return text

    def cut(text: str) -> str:
        return quoting.cut(hide(text))

    def processor(_: Any, __: str, event: EventDict) -> EventDict:
        exception = event.pop("exception", None)
        changed: EventDict = _mapped(cut, event)
        if exception is not None:
            changed["exception"] = hide(str(exception))[-TRACEBACK_MAX_CHARS:]
        return changed

    return processor


def _mapped(change: Callable[[str], str], value: Any) -> Any:
    """A value with every text in it changed, long lists cut, and other types as texts."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, bytes):
        return change(value.decode(errors="backslashreplace"))
    if isinstance(value, dict):
        return {change(str(name)): _mapped(change, item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = [_mapped(change, item) for item in list(value)[:LIST_MAX]]
        return items if len(value) <= LIST_MAX else [*items, f"... ({len(value)} in all)"]
    if value is None or isinstance(value, bool | int | float):
        return value
    return change(str(value))


def _console() -> list[Any]:
    """Processors for a terminal."""
    renderer = structlog.dev.ConsoleRenderer(
        colors=sys.stdout.isatty() and "NO_COLOR" not in os.environ,
        # The default formatter shows the local variables of every frame, and secrets among them.
        exception_formatter=structlog.dev.plain_traceback,
    )

    def escaped(_: Any, __: str, event: EventDict) -> EventDict:
        # The lines of a traceback are ours; values from outside in them are escaped line by line.
        exception = event.pop("exception", None)
        changed: EventDict = _mapped(quoting.printable, event)
        if exception is not None:
            changed["exception"] = "\n".join(map(quoting.printable, exception.splitlines()))
        return changed

    return [escaped, renderer]


def _json() -> list[Any]:
    """Processors for machines: one line of ASCII for each event, with a priority if the journal reads it."""
    renderer = structlog.processors.JSONRenderer(ensure_ascii=True, default=str)
    if not _is_journal():
        return [renderer]

    def with_priority(logger: Any, name: str, event: EventDict) -> str:
        priority = PRIORITIES.get(str(event.get("level")), PRIORITIES["info"])
        return f"<{priority}>{renderer(logger, name, event)!s}"

    return [with_priority]


def _is_journal() -> bool:
    """Whether the journal reads our output: systemd names the file that it reads from."""
    device, _, inode = os.environ.get("JOURNAL_STREAM", "").partition(":")
    if not inode:
        return False
    try:
        status = os.fstat(sys.stdout.fileno())
    except OSError:
        return False
    return (str(status.st_dev), str(status.st_ino)) == (device, inode)


class _LibraryHandler(logging.Handler):
    """Logs what libraries log with Python's logging as events of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        log = get(library=record.name)
        if record.levelno >= logging.ERROR:
            log.error("library_error", message=message, exc_info=record.exc_info)
        else:
            log.warning("library_warning", message=message)
