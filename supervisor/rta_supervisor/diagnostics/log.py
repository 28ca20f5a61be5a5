"""Structured logs: JSON lines for machines, colours on a terminal. Event names are fixed and stand in docs/events.md;
facts are fields.

Nothing that came from outside can leave its field: control characters are escaped. Nothing that was configured as a
secret is printed. What is said again and again is said a few times, then counted.
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

PLAIN = structlog.dev.plain_traceback
"""The default shows the local variables of every frame, and secrets among them."""

Log = structlog.typing.FilteringBoundLogger
EventDict = structlog.typing.EventDict

PRIORITIES: Final = {"critical": 2, "error": 3, "warning": 4, "info": 6, "debug": 7}
"""As syslog and the journal count them."""

TEXT_MAX_CHARS: Final = 1000
TRACEBACK_MAX_CHARS: Final = 20_000
LIST_MAX: Final = 50

_repeats = LogLimiter(time.monotonic)


def configure(settings: settings_.LogSettings, secrets: Sequence[str] = ()) -> None:
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
    logging.basicConfig(level=logging.WARNING, handlers=[_Bridge()], force=True)


def get(**fields: Any) -> Log:
    log: Log = structlog.get_logger(**fields)
    return log


def bound(**fields: Any) -> contextlib.AbstractContextManager[None]:
    """Everything that is logged in the block, however deep, has these fields. None is no field."""
    given = {name: value for name, value in fields.items() if value is not None}
    return structlog.contextvars.bound_contextvars(**given)


def bind(**fields: Any) -> None:
    """Everything that this task and those that it starts log has these fields."""
    structlog.contextvars.bind_contextvars(**fields)


def log_suppressed(*, is_last: bool = False) -> None:
    """Say how often something was not said, once it has stopped; at the end all of it."""
    for event, count in _repeats.finished(is_last=is_last):
        get(**event).warning("events_repeated", count=count)


def _limited(_: Any, __: str, event: EventDict) -> EventDict:
    if (shown := _repeats.admit(event)) is None:
        raise structlog.DropEvent
    return shown


def _safe(secrets: Sequence[str]) -> Callable[[Any, str, EventDict], EventDict]:
    """No secret, and nothing that is longer than a person reads."""

    def hide(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, redaction.HIDDEN)
        return text

    def cut(text: str) -> str:
        text = hide(text)
        return text if len(text) <= TEXT_MAX_CHARS else f"{text[:TEXT_MAX_CHARS]}... ({len(text)} characters)"

    def processor(_: Any, __: str, event: EventDict) -> EventDict:
        exception = event.pop("exception", None)
        shown: EventDict = _mapped(cut, event)
        if exception is not None:
            shown["exception"] = hide(str(exception))[-TRACEBACK_MAX_CHARS:]
        return shown

    return processor


def _mapped(change: Callable[[str], str], value: Any) -> Any:
    """A value with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, bytes):
        return change(value.decode(errors="backslashreplace"))
    if isinstance(value, dict):
        return {change(str(name)): _mapped(change, one) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        some = [_mapped(change, one) for one in list(value)[:LIST_MAX]]
        return some if len(value) <= LIST_MAX else [*some, f"... ({len(value)} in all)"]
    if value is None or isinstance(value, bool | int | float):
        return value
    return change(str(value))


def printable(text: str) -> str:
    """Text without anything that a terminal would obey or that would hide what it says."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _console() -> list[Any]:
    renderer = structlog.dev.ConsoleRenderer(
        colors=sys.stdout.isatty() and "NO_COLOR" not in os.environ,
        exception_formatter=structlog.dev.plain_traceback,
    )

    def escaped(_: Any, __: str, event: EventDict) -> EventDict:
        # A traceback is ours and has lines; what others sent into it is escaped line by line.
        exception = event.pop("exception", None)
        shown: EventDict = _mapped(printable, event)
        if exception is not None:
            shown["exception"] = "\n".join(map(printable, exception.splitlines()))
        return shown

    return [escaped, renderer]


def _json() -> list[Any]:
    """One line each, in ASCII: every other character is escaped by JSON itself."""
    renderer = structlog.processors.JSONRenderer(ensure_ascii=True, default=str)
    if not _is_journal():
        return [renderer]

    def with_priority(logger: Any, name: str, event: EventDict) -> str:
        priority = PRIORITIES.get(str(event.get("level")), PRIORITIES["info"])
        return f"<{priority}>{renderer(logger, name, event)!s}"

    return [with_priority]


def _is_journal() -> bool:
    """Whether the journal reads what we print: systemd says which file it reads from."""
    device, _, inode = os.environ.get("JOURNAL_STREAM", "").partition(":")
    if not inode:
        return False
    try:
        found = os.fstat(sys.stdout.fileno())
    except OSError:
        return False
    return (str(found.st_dev), str(found.st_ino)) == (device, inode)


class _Bridge(logging.Handler):
    """What libraries say in their own way."""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        say = get(library=record.name)
        if record.levelno >= logging.ERROR:
            say.error("library_error", message=message, exc_info=record.exc_info)
        else:
            say.warning("library_warning", message=message)
