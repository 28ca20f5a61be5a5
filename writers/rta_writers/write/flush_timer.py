"""The thread that sends what waits, and the guard by which it and the caller of a task take turns."""

import atexit
import logging
import os
import threading
import time
import weakref
from typing import Any, Final, Protocol

from rta_wire import errors

log: Final = logging.getLogger("rta_writers")

LINGER_S: Final = 0.05
"""How long a thread with nothing to do waits before it waits for good: a recorder has something due again soon, and
waking the thread costs the caller more than making a burst does."""

EARLY_S: Final = 0.001
"""A thread that wakes by itself so little after a time that is set now is not woken for it."""


def check_process(unit: str, pid: int) -> None:
    """Raises in a child of the process that made the writer of a unit."""
    if os.getpid() != pid:
        raise errors.Usage(
            reason=f"The writer of unit {unit!r} was made by process {pid}, and this is a child of it, {os.getpid()}. "
            "The parent sends what waits; make another writer here, with a unit of its own"
        )


def closed_error(unit: str) -> errors.Usage:
    """The error for rows after `close`."""
    return errors.Usage(reason=f"The writer of unit {unit!r} is closed. Make another one for more rows")


class TaskGuard:
    """Lets one thread at a time into a task, in the process that made it, until it is closed or its timer fails."""

    def __init__(self, name: str) -> None:
        self.lock = threading.RLock()
        self.error: BaseException | None = None
        """What the timer failed with. Raised by every further use."""
        self.is_closed = False
        self._name = name
        self._pid = os.getpid()

    @property
    def is_in_child(self) -> bool:
        """Whether this is a copy in a child process: its connections are those of the parent."""
        return os.getpid() != self._pid

    def __enter__(self) -> None:
        # Not after taking the lock: a thread of the parent may have had it when the child was made.
        check_process(self._name, self._pid)
        self.lock.acquire()
        if self.error is not None or self.is_closed:
            self.lock.release()
            raise self.error or closed_error(self._name)

    def __exit__(self, *_: object) -> None:
        self.lock.release()


class TimedTask(Protocol):
    """What a timer is for."""

    def on_timer(self) -> None:
        """Do what is due, and set the timer again. Raises nothing."""

    @property
    def unwritten_rows(self) -> int:
        """Rows that are not known to be written."""

    @property
    def unit(self) -> str:
        """The name of the unit that the rows belong to."""


class FlushTimer:
    """Calls `on_timer` of a task at a time, in a thread that begins when the first one is set.

    A task for which a time is set lives until then, so that its rows are sent even where nobody holds it any more. One
    without is collected as if there were no timer, and the thread ends with it.
    """

    def __init__(self, task: TimedTask) -> None:
        self.is_stopped = False
        self._changed = threading.Condition()
        self._task = weakref.ref(task, lambda _: self.stop())
        self._held: TimedTask | None = None
        self._due_s: float | None = None
        self._wakes_s: float | None = None
        """When the thread looks for work again by itself, None while it is at work."""
        self._is_started = False

    def set_latest(self, due_s: float) -> None:
        """Call the task at this time or at the one that was set before, whichever comes first."""
        # Without the lock: where the thread takes the time that is seen here, the task sets the next one.
        set_s = self._due_s
        if set_s is None or due_s < set_s:
            self.set_due(due_s)

    def set_due(self, due_s: float | None) -> None:
        """Call the task at this time of `time.monotonic` and not at the one that was set before. None: not at all."""
        if due_s is not None and due_s == self._due_s:
            return  # without the lock, as above
        with self._changed:
            if self.is_stopped:
                return
            self._due_s = due_s
            self._held = None if due_s is None else self._task()
            if due_s is None:
                return
            if not self._is_started:
                self._is_started = True
                _timers.add(self)
                threading.Thread(target=self._run, name="rta-flush", daemon=True).start()
            elif self._wakes_s is not None and due_s < self._wakes_s - EARLY_S:
                self._changed.notify()

    def stop(self) -> None:
        """End the thread. It may be at work: the guard of the task says when it is not."""
        with self._changed:
            self.is_stopped = True
            self._due_s = self._held = None
            self._changed.notify()

    def lost_at_exit(self) -> tuple[str, int]:
        """The unit of the task, and its rows that may never be written where the process ends now."""
        task = None if self.is_stopped else self._task()
        return ("", 0) if task is None else (task.unit, task.unwritten_rows)

    def forget(self) -> None:
        """Stop in a child process. There is no thread, and one of the parent may have had the lock."""
        self._changed = threading.Condition()
        self.stop()

    def _run(self) -> None:
        while not self.is_stopped:
            # In a function of its own, whose names end with it: they would keep the task while the thread waits.
            self._call_next()

    def _call_next(self) -> None:
        task = self._next()
        if task is not None:
            task.on_timer()

    def _next(self) -> TimedTask | None:
        """Wait until it is time. None: the timer was stopped."""
        idle_wait_s: float | None = LINGER_S
        with self._changed:
            while not self.is_stopped:
                now_s = time.monotonic()
                if self._due_s is not None and self._due_s <= now_s:
                    task, self._held, self._due_s = self._held, None, None
                    return task
                wait_s, idle_wait_s = (idle_wait_s, None) if self._due_s is None else (self._due_s - now_s, LINGER_S)
                self._wakes_s = float("inf") if wait_s is None else now_s + wait_s
                self._changed.wait(wait_s)
                self._wakes_s = None
            return None


_timers: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def _warn_at_exit() -> None:
    for timer in list(_timers):
        unit, rows = timer.lost_at_exit()
        if rows:
            log.warning("The writer of unit %r was not closed: its last %d rows may not be in the stream", unit, rows)


def _forget_in_child() -> None:
    """What waits is the parent's."""
    for timer in list(_timers):
        timer.forget()
    _timers.clear()


atexit.register(_warn_at_exit)
os.register_at_fork(after_in_child=_forget_in_child)
