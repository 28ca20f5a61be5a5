"""Keeps a log readable while something goes wrong all the time: lets the first few of a kind pass, counts the rest."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

WINDOW_S: Final = 10.0
EVENTS_PER_WINDOW: Final = 5
KINDS_MAX: Final = 1000

OCCURRENCE: Final = frozenset({"entry", "request", "error", "reason", "exc_info", "message", "state", "silent_s"})
"""Fields that tell one occurrence from another. All others tell one kind from another: what happens to each of many
sessions is said for each of them."""


class EventWindow:
    """One thing that is said again and again."""

    __slots__ = ("logged", "since_s", "suppressed")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.logged = 0
        self.suppressed = 0


class LogLimiter:
    """A few of each kind per window."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._kinds: dict[tuple[tuple[str, str], ...], EventWindow] = {}

    def admit(self, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """The event as it is to be said, with the number of those that were not; None: not now."""
        now_s = self._clock_s()
        key = tuple(sorted((name, str(value)) for name, value in event.items() if name not in OCCURRENCE))
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= KINDS_MAX and not self._forget():
                return dict(event)
            kind = self._kinds[key] = EventWindow(now_s)
        hushed = 0
        if now_s - kind.since_s >= WINDOW_S:
            hushed, kind.suppressed, kind.logged, kind.since_s = kind.suppressed, 0, 0, now_s
        if kind.logged >= EVENTS_PER_WINDOW:
            kind.suppressed += 1
            return None
        kind.logged += 1
        return {**event, "repeats": hushed} if hushed else dict(event)

    def finished(self, *, is_last: bool = False) -> Iterator[tuple[dict[str, str], int]]:
        """Kinds that have stopped, with how many were not said; at the end, all."""
        now_s = self._clock_s()
        for key, kind in list(self._kinds.items()):
            if is_last or now_s - kind.since_s >= WINDOW_S:
                del self._kinds[key]
                if kind.suppressed:
                    fields = {name: value for name, value in key if name not in ("event", "level")}
                    yield {"repeated": dict(key).get("event", ""), **fields}, kind.suppressed

    def _forget(self) -> bool:
        """Whether there is room for new kinds: those of which nothing was left out have nothing to tell."""
        told = [key for key, kind in self._kinds.items() if not kind.suppressed][: KINDS_MAX // 2]
        for key in told:
            del self._kinds[key]
        return bool(told)
