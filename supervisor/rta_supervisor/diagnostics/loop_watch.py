"""Whether the loops of the daemon get anywhere. A loop says when it goes round and when it will be back; one that is
not back long after that is stuck.

Which loop says it is known from the task, so that a loop needs to know nothing but `step` and `rest`.
"""

import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Final

import anyio

SLACK_S: Final = 60.0
"""How much later than announced a loop may be: Redis may be slow, and much may have to be done at once."""


class WatchedLoop:
    """One of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.due_s: float | None = anyio.current_time() + SLACK_S


_current: contextvars.ContextVar[WatchedLoop | None] = contextvars.ContextVar("loop", default=None)


def report_alive(within_s: float = 0.0) -> None:
    """I am alive, and back within this time."""
    if (loop := _current.get()) is not None:
        loop.due_s = anyio.current_time() + within_s + SLACK_S


def report_waiting() -> None:
    """I wait for something that may never come."""
    if (loop := _current.get()) is not None:
        loop.due_s = None


class LoopWatch:
    """All loops of a daemon."""

    def __init__(self) -> None:
        self._loops: list[WatchedLoop] = []

    def watched(
        self, name: str, work: Callable[..., Coroutine[Any, Any, None]]
    ) -> Callable[..., Coroutine[Any, Any, None]]:
        """The same work, under watch as long as it runs."""

        async def run(*words: Any) -> None:
            loop = WatchedLoop(name)
            self._loops.append(loop)
            _current.set(loop)
            try:
                await work(*words)
            finally:
                self._loops.remove(loop)

        return run

    def stuck(self) -> dict[str, float]:
        """Loops that should have been back, with the seconds since then."""
        now_s = anyio.current_time()
        return {
            loop.name: round(now_s - loop.due_s, 1)
            for loop in self._loops
            if loop.due_s is not None and loop.due_s < now_s
        }
