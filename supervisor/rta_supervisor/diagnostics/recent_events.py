"""The last things that happened, for the live page: a bounded copy of what the log said."""

import itertools
from collections import deque
from collections.abc import MutableMapping
from typing import Any, Final

import msgspec

KEPT: Final = 200
TEXT_MAX_CHARS: Final = 300
_APART: Final = ("event", "level", "timestamp", "exception", "exc_info", "stack_info")


class LogEvent(msgspec.Struct, frozen=True):
    """One event of the log."""

    number: int
    timestamp: str
    level: str
    event: str
    facts: dict[str, str]


class RecentEvents:
    """A processor of structlog that keeps the newest events and changes none."""

    def __init__(self) -> None:
        self._kept: deque[LogEvent] = deque(maxlen=KEPT)
        self._numbers = itertools.count(1)

    def __call__(self, _: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        facts = {str(name): _short(value) for name, value in event.items() if name not in _APART}
        timestamp, level, name = (str(event.get(word, "")) for word in ("timestamp", "level", "event"))
        self._kept.append(LogEvent(next(self._numbers), timestamp, level, name, facts))
        return event

    def after(self, number: int) -> list[LogEvent]:
        """What happened after the one with that number, oldest first."""
        return [one for one in self._kept if one.number > number]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= TEXT_MAX_CHARS else text[: TEXT_MAX_CHARS - 1] + "…"


RECENT_EVENTS: Final = RecentEvents()
