"""Limits how often events are logged: the first ones of a window pass, the rest is counted. Pure.

Two limits hold. The events of a kind have one together, whatever else differs in them, such as the session or a name
that a client has chosen: no client can fill the log. Within it, events that tell the same have a smaller one: an event
that repeats does not use up what the kind has for other sessions.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

WINDOW_S: Final = 10.0
KIND_PER_WINDOW: Final = 100
RECOVERY_PER_WINDOW: Final = 5000
RECOVERY_EVENTS: Final = frozenset(
    {"session_restored", "session_not_restored", "session_lost_data", "session_ended_elsewhere"}
)
"""Events that name the sessions concerned by a loss of data in Redis. No client can cause them, and operators look for
each of them."""

SAME_PER_WINDOW: Final = 5
KINDS_MAX: Final = 1000
SESSIONS_COUNTED_MAX: Final = 1000

KIND_FIELDS: Final = ("event", "level", "principal", "lane", "duty", "webhook", "limit", "library")
"""Fields that make a kind. Their values come from the program and its settings, so that there are few kinds."""

OCCURRENCE_FIELDS: Final = frozenset(
    {"count", "entry", "request", "error", "reason", "exc_info", "message", "state", "silent_s"}
)
"""Fields in which events may differ that tell the same."""


class SuppressedEvents:
    """Events of one kind that were not logged: how many, of how many sessions, and the fields that they all have."""

    __slots__ = ("common", "count", "sessions", "since_s")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.count = 0
        self.common: dict[str, str] = {}
        self.sessions: set[int] = set()

    def add(self, fields: Mapping[str, str]) -> None:
        if not self.count:
            self.common = dict(fields)
        elif self.common != fields:
            self.common = {name: value for name, value in self.common.items() if fields.get(name) == value}
        self.count += 1
        if "session" in fields and len(self.sessions) < SESSIONS_COUNTED_MAX:
            self.sessions.add(hash(fields["session"]))


class EventKind:
    """The events of one kind in the window that began last."""

    __slots__ = ("_per_window", "logged", "same", "since_s", "suppressed")

    def __init__(self, event: str, since_s: float) -> None:
        self._per_window = RECOVERY_PER_WINDOW if event in RECOVERY_EVENTS else KIND_PER_WINDOW
        self.suppressed: SuppressedEvents | None = None
        self.begin(since_s)

    def begin(self, since_s: float) -> None:
        """Begin a window."""
        self.since_s = since_s
        self.logged = 0
        self.same: dict[int, int] = {}

    def admit(self, fields: Mapping[str, str]) -> bool:
        """Whether an event is within both limits. It counts then."""
        same = hash(tuple(fields.items()))
        if self.logged >= self._per_window or self.same.get(same, 0) >= SAME_PER_WINDOW:
            return False
        self.logged += 1
        self.same[same] = self.same.get(same, 0) + 1
        return True

    def suppress(self, fields: Mapping[str, str], now_s: float) -> None:
        """Count an event that is not logged."""
        if self.suppressed is None:
            self.suppressed = SuppressedEvents(now_s)
        self.suppressed.add(fields)

    def take_repeats(self, fields: Mapping[str, str]) -> int:
        """How many events were suppressed before this one, if all of them tell the same as it does. They are told
        then."""
        if self.suppressed is None or self.suppressed.common != fields:
            return 0
        count, self.suppressed = self.suppressed.count, None
        return count


class LogLimiter:
    """Lets `KIND_PER_WINDOW` events of each kind pass per window, and `SAME_PER_WINDOW` that tell the same."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._kinds: dict[tuple[str, ...], EventKind] = {}

    def admit(self, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """The event to log, with the number of those suppressed before it in `repeats`; None if it is suppressed."""
        now_s = self._clock_s()
        fields = {name: str(event[name]) for name in sorted(event) if name not in OCCURRENCE_FIELDS}
        kind = self._kind(fields, now_s)
        if now_s - kind.since_s >= WINDOW_S:
            kind.begin(now_s)
        if not kind.admit(fields):
            kind.suppress(fields, now_s)
            return None
        repeats = kind.take_repeats(fields)
        return {**event, "repeats": repeats} if repeats else dict(event)

    def finished(self, *, is_last: bool = False) -> Iterator[tuple[dict[str, Any], int]]:
        """What was suppressed and not told for a window, or, with `is_last`, at all: the fields that the events have in
        common, with the number of sessions where there are several, and how many events there were."""
        now_s = self._clock_s()
        for key, kind in list(self._kinds.items()):
            suppressed = kind.suppressed
            if suppressed is not None and (is_last or now_s - suppressed.since_s >= WINDOW_S):
                kind.suppressed = None
                fields = {name: value for name, value in suppressed.common.items() if name not in ("event", "level")}
                sessions = {"sessions": len(suppressed.sessions)} if len(suppressed.sessions) > 1 else {}
                yield {"repeated": key[0], **fields, **sessions}, suppressed.count
            if kind.suppressed is None and (is_last or now_s - kind.since_s >= WINDOW_S):
                del self._kinds[key]

    def _kind(self, fields: Mapping[str, str], now_s: float) -> EventKind:
        key = tuple(fields.get(name, "") for name in KIND_FIELDS)
        if key not in self._kinds and len(self._kinds) >= KINDS_MAX:
            key = (fields.get("event", ""),)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = EventKind(key[0], now_s)
        return kind
