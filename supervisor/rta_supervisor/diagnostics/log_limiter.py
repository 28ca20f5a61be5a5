"""Limits how often one kind of event is logged: the first few of a window pass, the rest is counted."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

WINDOW_S: Final = 10.0
EVENTS_PER_WINDOW: Final = 5
KINDS_MAX: Final = 1000

OCCURRENCE_FIELDS: Final = frozenset(
    {"count", "entry", "request", "error", "reason", "exc_info", "message", "state", "silent_s"}
)
"""Fields in which two events of one kind may differ. Events that differ in any other field, such as the session, are of
different kinds, and each kind has its own limit."""


class EventWindow:
    """How many events of one kind were logged and suppressed since a time."""

    __slots__ = ("logged", "since_s", "suppressed")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.logged = 0
        self.suppressed = 0


class LogLimiter:
    """Lets `EVENTS_PER_WINDOW` events of each kind pass per window."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._windows: dict[tuple[tuple[str, str], ...], EventWindow] = {}

    def admit(self, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """The event to log, with the number of those suppressed before it in `repeats`; None if it is suppressed."""
        now_s = self._clock_s()
        key = tuple(sorted((name, str(value)) for name, value in event.items() if name not in OCCURRENCE_FIELDS))
        window = self._windows.get(key)
        if window is None:
            if len(self._windows) >= KINDS_MAX and not self._forget():
                return dict(event)
            window = self._windows[key] = EventWindow(now_s)
        repeats = 0
        if now_s - window.since_s >= WINDOW_S:
            repeats, window.suppressed, window.logged, window.since_s = window.suppressed, 0, 0, now_s
        if window.logged >= EVENTS_PER_WINDOW:
            window.suppressed += 1
            return None
        window.logged += 1
        return {**event, "repeats": repeats} if repeats else dict(event)

    def finished(self, *, is_last: bool = False) -> Iterator[tuple[dict[str, str], int]]:
        """Forget kinds whose window is over, or all. Gives fields and number of suppressed events of each."""
        now_s = self._clock_s()
        for key, window in list(self._windows.items()):
            if is_last or now_s - window.since_s >= WINDOW_S:
                del self._windows[key]
                if window.suppressed:
                    fields = {name: value for name, value in key if name not in ("event", "level")}
                    yield {"repeated": dict(key).get("event", ""), **fields}, window.suppressed

    def _forget(self) -> bool:
        """Forget kinds without suppressed events, half of all at most. Gives whether that made room for new ones."""
        removable = [key for key, window in self._windows.items() if not window.suppressed][: KINDS_MAX // 2]
        for key in removable:
            del self._windows[key]
        return bool(removable)
