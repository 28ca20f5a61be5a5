"""The newest events of the log, for the live page: a bounded copy in memory."""

import itertools
from collections import deque
from collections.abc import Iterable, MutableMapping
from typing import Any, Final

import msgspec

from rta_wire import quoting

EVENTS_MAX: Final = 200
TEXT_MAX_CHARS: Final = 300
_NO_FACTS: Final = ("event", "level", "timestamp", "exception", "exc_info", "stack_info")


class LogEvent(msgspec.Struct, frozen=True):
    """One event of the log. Its number counts the events of this process."""

    number: int
    timestamp: str
    level: str
    event: str
    facts: dict[str, str]


class RecentEvents:
    """A processor of structlog that keeps a copy of the newest events and changes none."""

    def __init__(self) -> None:
        self._events: deque[LogEvent] = deque(maxlen=EVENTS_MAX)
        self._numbers = itertools.count(1)

    def __call__(self, _: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        facts = {
            str(name): quoting.cut(str(value), TEXT_MAX_CHARS) for name, value in event.items() if name not in _NO_FACTS
        }
        timestamp, level, name = (str(event.get(field, "")) for field in ("timestamp", "level", "event"))
        self._events.append(LogEvent(next(self._numbers), timestamp, level, name, facts))
        return event

    def take_over(self, events: Iterable[LogEvent]) -> None:
        """Keep events of another process, which has logged them, under numbers of this one."""
        self._events.extend(
            msgspec.structs.replace(event, number=number) for event, number in zip(events, self._numbers, strict=False)
        )

    def after(self, number: int) -> list[LogEvent]:
        """Events with a higher number, the oldest first."""
        return [event for event in self._events if event.number > number]


RECENT_EVENTS: Final = RecentEvents()
