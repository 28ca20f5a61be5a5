"""When the thread of a timer calls its task, and when it has to be woken for that."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from rta_writers.write import flush_timer
from rta_writers.write.flush_timer import FlushTimer
from tests.support.waiting import wait_until

FAR_S = 60.0


class CountedTask:
    """Counts the calls of its timer, and has nothing due after them."""

    unit = "job/0"
    unwritten_rows = 0

    def __init__(self) -> None:
        self.calls = 0

    def on_timer(self) -> None:
        self.calls += 1


class CountedCondition(threading.Condition):
    """Counts how often a thread that waits is woken."""

    def __init__(self) -> None:
        super().__init__()
        self.wakes = 0

    def notify(self, n: int = 1) -> None:
        self.wakes += 1
        super().notify(n)


Rig = tuple[CountedTask, FlushTimer, CountedCondition]


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A task with a timer."""
    task = CountedTask()
    timer = FlushTimer(task)
    condition = CountedCondition()
    timer._changed = condition
    yield task, timer, condition
    timer.stop()


def wait_until_at_rest(timer: FlushTimer, is_at_rest: Callable[[float], bool]) -> None:
    wait_until(lambda: timer._wakes_s is not None and is_at_rest(timer._wakes_s), what="a thread that waits")


@pytest.mark.parametrize(("set_s", "latest_s"), [(0.01, FAR_S), (FAR_S, 0.01)])
def test_the_first_of_two_times_counts(rig: Rig, set_s: float, latest_s: float) -> None:
    """A row that comes does not put off a report that is due, nor does a report that is due later hold it up."""
    task, timer, _ = rig
    now_s = time.monotonic()
    timer.set_due(now_s + set_s)
    timer.set_latest(now_s + latest_s)
    wait_until(lambda: task.calls == 1, what="a call")


def test_a_thread_that_wakes_in_time_is_not_woken(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a call it waits for a while by itself, so that a recorder does not wake it for each of its reports."""
    monkeypatch.setattr(flush_timer, "LINGER_S", FAR_S)
    task, timer, condition = rig
    timer.set_due(time.monotonic())
    wait_until_at_rest(timer, lambda wakes_s: time.monotonic() + FAR_S / 2 < wakes_s < float("inf"))
    wakes_s = timer._wakes_s
    assert wakes_s is not None
    for due_s in (None, wakes_s + 1, wakes_s, wakes_s - flush_timer.EARLY_S / 2):
        timer.set_due(due_s)
    assert (task.calls, condition.wakes) == (1, 0)
    timer.set_due(time.monotonic() + 0.01)
    assert condition.wakes == 1
    wait_until(lambda: task.calls == 2, what="a call in time")


def test_a_thread_with_nothing_to_do_waits_for_good(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle writer takes no processor time, and is woken when it gets a row."""
    monkeypatch.setattr(flush_timer, "LINGER_S", 0.001)
    task, timer, condition = rig
    for calls in (1, 2):
        timer.set_latest(time.monotonic() + 0.01)
        wait_until(lambda calls=calls: task.calls == calls, what="a call")  # type: ignore[misc]
        wait_until_at_rest(timer, lambda wakes_s: wakes_s == float("inf"))
    assert condition.wakes == 1


def test_a_child_process_stops_a_timer_although_the_parent_had_its_lock(rig: Rig) -> None:
    """A thread of the parent may have been at it when the child was made, and no thread of the child gives it back."""
    _, timer, condition = rig
    holder = threading.Thread(target=condition.acquire)
    holder.start()
    holder.join()
    child = threading.Thread(target=timer.forget, daemon=True)
    child.start()
    child.join(timeout=5)
    timer._changed = threading.Condition()  # for the end of the test, where it fails
    assert timer.is_stopped
