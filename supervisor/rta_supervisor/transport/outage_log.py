"""Trouble with Redis, as the log has it: one line at first, then one now and then, however many duties meet it."""

import time
from typing import Final

from rta_supervisor.diagnostics import log
from rta_wire import redis_errors

SAY_EVERY_S: Final = 10.0


class OutageLog:
    """One for each link: all of its users complain here."""

    def __init__(self, say_every_s: float = SAY_EVERY_S) -> None:
        self._say_every_s = say_every_s
        self._since_s: float | None = None
        self._said_s: dict[str, float] = {}
        self._times: dict[str, int] = {}
        self._log = log.get()

    def log_failure(self, error: BaseException) -> None:
        """A command failed, and will be tried again."""
        found = redis_errors.classify(error.__cause__ or error)
        code = found.code if found is not None else type(error).__name__
        event = "full" if code == redis_errors.OUT_OF_MEMORY else "unavailable"
        now_s = time.monotonic()
        if self._since_s is None:
            self._since_s = now_s
        self._times[event] = self._times.get(event, 0) + 1
        if now_s - self._said_s.get(event, -self._say_every_s) < self._say_every_s:
            return
        self._said_s[event] = now_s
        times, self._times[event] = self._times[event], 0
        facts = {"error": str(found or error), "code": code, "times": times}
        if code == redis_errors.OUT_OF_MEMORY:
            self._log.warning("redis_full", **facts)
        else:
            self._log.warning("redis_unavailable", **facts)

    def log_recovery(self) -> None:
        """Redis takes everything again."""
        if self._since_s is not None:
            self._log.info("redis_back", after_s=round(time.monotonic() - self._since_s, 1))
            self._since_s = None
            self._said_s.clear()
            self._times.clear()
