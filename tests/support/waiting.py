"""Waiting for a condition instead of for time to pass."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, timeout_s: float = 15.0, what: str = "the condition") -> T:
    """The first true value of `condition`, or a failure that says what never came true."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline_s:
            raise AssertionError(f"{what} did not come true within {timeout_s} s; last value: {value!r}")
        time.sleep(0.01)
    return value
