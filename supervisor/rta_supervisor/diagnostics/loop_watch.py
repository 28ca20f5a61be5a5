"""Finds loops of the daemon that are stuck: those that have not reported for longer than they announced.

A loop calls `report_alive` or `report_waiting`. Which loop that is follows from its task, so that it needs no object.
"""

import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Final

import anyio

SLACK_S: Final = 60.0
"""How much later than announced a loop may report: Redis may be slow, and one round may have much to do."""


class WatchedLoop:
    """One loop, and until when it has to report; None while it waits for something that may never come."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.due_s: float | None = anyio.current_time() + SLACK_S


_current: contextvars.ContextVar[WatchedLoop | None] = contextvars.ContextVar("loop", default=None)


def report_alive(within_s: float = 0.0) -> None:
    """Report that the loop of this task makes progress, and will report again within a time."""
    if (loop := _current.get()) is not None:
        loop.due_s = anyio.current_time() + within_s + SLACK_S


def report_waiting() -> None:
    """Report that the loop of this task waits for something that may never come."""
    if (loop := _current.get()) is not None:
        loop.due_s = None


class LoopWatch:
    """All loops of a daemon that run under watch."""

    def __init__(self) -> None:
        self._loops: list[WatchedLoop] = []

    def watched(
        self, name: str, work: Callable[..., Coroutine[Any, Any, None]]
    ) -> Callable[..., Coroutine[Any, Any, None]]:
        """A loop as a function that puts it under watch while it runs."""

        async def run(*arguments: Any) -> None:
            loop = WatchedLoop(name)
            self._loops.append(loop)
            _current.set(loop)
            try:
                await work(*arguments)
            finally:
                self._loops.remove(loop)

        return run

    def stuck(self) -> dict[str, float]:
        """Loops that should have reported, with the seconds since then."""
        now_s = anyio.current_time()
        return {
            loop.name: round(now_s - loop.due_s, 1)
            for loop in self._loops
            if loop.due_s is not None and loop.due_s < now_s
        }
