"""How many sessions each principal has open, for `limits.open_sessions`. Pure: `observe/sampler.py` counts them in
Redis at intervals, and this supervisor adds what it opens and closes in between. What other supervisors open and close
is known after the next count: with several of them the limit is approximate.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from rta_supervisor.diagnostics import principal_limits
from rta_supervisor.settings import settings
from rta_wire import errors

CHANGES_MAX: Final = 100_000
"""Far more than come between two counts."""


class OpenSessions:
    """The number of open sessions of each principal."""

    def __init__(self, config: settings.Settings) -> None:
        self._config = config
        self._counts: Counter[str] = Counter()
        self._changes: dict[str, tuple[str, bool]] = {}
        """Sessions that were opened or closed here since the last count in Redis: principal, and whether it is open.
        What was opened just before the next count may not stand in Redis yet when that one looks."""

    def add(self, principal: str, identity: str) -> None:
        """Count a session that is about to be opened, or refuse it where its principal has too many."""
        limit = self._config.limits.open_sessions
        if self._counts[principal] >= limit:
            principal_limits.note_reached(principal, "open_sessions")
            raise errors.LimitReached(
                principal=principal,
                what=f"{limit:,} open sessions",
                setting="limits.open_sessions",
                limit=limit,
                remedy="Close those that nobody writes to, or raise the limit.",
            )
        self._change(principal, identity, is_open=True)

    def remove(self, principal: str, identity: str) -> None:
        """Count a session that is not open any more."""
        self._change(principal, identity, is_open=False)

    def _change(self, principal: str, identity: str, *, is_open: bool) -> None:
        self._counts[principal] = max(0, self._counts[principal] + (1 if is_open else -1))
        self._changes[identity] = principal, is_open
        if len(self._changes) > CHANGES_MAX:
            del self._changes[next(iter(self._changes))]

    def take_over_count(self, open_sessions: Mapping[str, str]) -> None:
        """Take over a count: principals by the identities of sessions that were open when they were looked at."""
        counts = Counter(open_sessions.values())
        for identity, (principal, is_open) in self._changes.items():
            was_counted = identity in open_sessions
            if is_open != was_counted:
                counts[principal] += 1 if is_open else -1
        self._counts = counts
        self._changes.clear()
