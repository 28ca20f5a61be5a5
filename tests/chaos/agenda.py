"""Delayed actions: each is done after some time, or when its condition is true."""

import time
from collections.abc import Callable
from typing import Final

Step = Callable[[], object]
PATIENCE_S: Final = 20


class Agenda:
    """Steps that wait. Nothing happens unless `do_due` is called."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], float, Step]] = []

    def after(self, seconds: float, step: Step) -> None:
        self._waiting.append((lambda: False, time.monotonic() + seconds, step))

    def when(self, condition: Callable[[], bool], step: Step) -> None:
        """When it has come true, or at last when it should have."""
        self._waiting.append((condition, time.monotonic() + PATIENCE_S, step))

    def do_due(self) -> None:
        due = [item for item in self._waiting if time.monotonic() >= item[1] or item[0]()]
        self._waiting = [item for item in self._waiting if item not in due]
        for _, _, step in due:
            step()

    def do_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, _, step in waiting:
            step()
