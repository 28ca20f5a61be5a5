"""The loop of a periodic duty: its turns, its pauses, and what it does about errors. No server, no waits."""

from collections.abc import Iterable

import anyio
import pytest
import redis.exceptions
import structlog

from rta_supervisor.nodes import periodic
from rta_supervisor.transport import commands, failures
from rta_supervisor.transport.outage_log import OutageLog


class NoMoreTurnsError(Exception):
    """The script of turns is at its end. The loop raises it, as it raises every error that is not retriable."""


class ScriptedTurns:
    """Gives turns from a list without waiting, and keeps how long each wait would have been."""

    def __init__(self, turns: Iterable[int | None]) -> None:
        self._turns = iter(turns)
        self.waits_s: list[float] = []

    async def next_turn(self, every_s: float) -> int | None:
        self.waits_s.append(every_s)
        await anyio.lowlevel.checkpoint()
        try:
            return next(self._turns)
        except StopIteration:
            raise NoMoreTurnsError from None


class Duty:
    """Keeps the ends of its turns, and fails with the next of some errors as long as there is one."""

    def __init__(self, errors: Iterable[Exception] = ()) -> None:
        self._errors = iter(errors)
        self.turns: list[int | None] = []

    async def __call__(self, until_ms: int | None) -> None:
        self.turns.append(until_ms)
        if (error := next(self._errors, None)) is not None:
            raise error


async def run(turns: ScriptedTurns, duty: Duty, pauses_s: Iterable[float] = (), *, at_once: bool = False) -> None:
    """The loop until the script of turns ends. Pauses are given in order, the last of them again and again."""
    pauses = [*pauses_s] or [1.0]
    with pytest.raises(NoMoreTurnsError):
        await periodic.in_turns(
            turns, lambda: pauses.pop(0) if len(pauses) > 1 else pauses[0], duty, OutageLog(), at_once=at_once
        )


async def test_a_duty_gets_the_end_of_each_turn() -> None:
    """The duty is called in every turn, also in those of another supervisor, with the end of the lease or None."""
    duty = Duty()
    await run(ScriptedTurns([1000, None, 3000]), duty)
    assert duty.turns == [1000, None, 3000]


async def test_the_pause_is_asked_before_each_wait() -> None:
    """A pause that changes between two turns counts from the next wait on."""
    turns = ScriptedTurns([commands.FOREVER] * 3)
    await run(turns, Duty(), [5.0, 0.5, 7.0])
    assert turns.waits_s == [5.0, 0.5, 7.0, 7.0]


async def test_a_duty_at_once_does_not_wait_for_its_first_turn() -> None:
    """The first wait is zero, all others are the pause."""
    turns = ScriptedTurns([commands.FOREVER] * 2)
    await run(turns, Duty(), [5.0], at_once=True)
    assert turns.waits_s == [0.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (redis.exceptions.ConnectionError("gone"), "RESET"),
        (TimeoutError("too long"), "TIMEOUT"),
        (failures.TemporaryRefusal("LOADING"), "TemporaryRefusal"),
        (failures.DataLost("NOGROUP"), "DataLost"),
    ],
)
async def test_a_retriable_error_is_logged_and_the_duty_done_again(error: Exception, code: str) -> None:
    """Of several errors in a row one is logged; the duty has its next turn after the usual pause."""
    turns, duty = ScriptedTurns([1, 2, 3]), Duty([error, error])
    with structlog.testing.capture_logs() as logged:
        await run(turns, duty, [5.0])
    assert duty.turns == [1, 2, 3]
    assert turns.waits_s == [5.0] * 4
    assert [(event["event"], event["code"]) for event in logged] == [("redis_unavailable", code)]


async def test_any_other_error_ends_the_loop() -> None:
    """An error that no retry mends is raised, so that the daemon ends with it."""
    duty = Duty([KeyError("bug")])
    with pytest.raises(KeyError):
        await periodic.in_turns(ScriptedTurns([1, 2]), lambda: 1.0, duty, OutageLog())
    assert duty.turns == [1]


async def test_a_duty_of_every_supervisor_has_all_turns() -> None:
    """Without leases each wait is a turn; cancelling the loop ends it."""
    count = 0

    async def duty() -> None:
        nonlocal count
        count += 1
        if count == 3:
            loop.cancel_scope.cancel()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as loop:
            loop.start_soon(lambda: periodic.every(lambda: 0.0, duty, OutageLog()))
    assert count == 3
