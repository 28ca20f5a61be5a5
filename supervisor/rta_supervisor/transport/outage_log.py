"""Logs outages of Redis: the first failure at once, then one line every few seconds, however many duties fail."""

import time
from typing import Final

from rta_supervisor.diagnostics import log
from rta_wire import redis_errors

LOG_EVERY_S: Final = 10.0


class OutageLog:
    """The outage log of one link, which all of its users share."""

    def __init__(self, log_every_s: float = LOG_EVERY_S) -> None:
        self._log_every_s = log_every_s
        self._since_s: float | None = None
        self._logged_s: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._log = log.get()

    def log_failure(self, error: BaseException) -> None:
        """Note a command that failed and will be tried again."""
        failure = redis_errors.classify(error.__cause__ or error)
        code = failure.code if failure is not None else type(error).__name__
        event = "full" if code == redis_errors.OUT_OF_MEMORY else "unavailable"
        now_s = time.monotonic()
        if self._since_s is None:
            self._since_s = now_s
        self._failures[event] = self._failures.get(event, 0) + 1
        if now_s - self._logged_s.get(event, -self._log_every_s) < self._log_every_s:
            return
        self._logged_s[event] = now_s
        times, self._failures[event] = self._failures[event], 0
        fields = {"error": str(failure or error), "code": code, "times": times}
        if code == redis_errors.OUT_OF_MEMORY:
            self._log.warning("redis_full", **fields)
        else:
            self._log.warning("redis_unavailable", **fields)

    def log_recovery(self) -> None:
        """Log the end of an outage, if there was one."""
        if self._since_s is not None:
            self._log.info("redis_back", after_s=round(time.monotonic() - self._since_s, 1))
            self._since_s = None
            self._logged_s.clear()
            self._failures.clear()
