"""Delivery of webhooks: pauses between tries, and a loop per target under watch."""

import functools

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.diagnostics import loop_watch
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks import deliverer
from tests.support.waiting import wait_until


@given(st.integers(1, 100), st.floats(0.001, 100), st.floats(0, 1))
def test_pauses_grow_and_are_bounded(attempt: int, first_s: float, chance: float) -> None:
    """Never shorter than half of the first, never longer than the cap, and the next range starts where one ends."""
    pause_s = deliverer.backoff_s(attempt, first_s, chance)
    assert first_s / 2 <= pause_s <= deliverer.BACKOFF_MAX_S
    assert deliverer.backoff_s(attempt + 1, first_s, chance) >= pause_s


GOOD = {"url": "https://example.com/x", "secret": "0123456789abcdef"}


async def test_each_target_is_a_loop_under_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says each time that it is alive, while Redis is away too: nobody takes it for stuck."""
    monkeypatch.setattr(deliverer, "TROUBLE_PAUSE_S", 0.01)
    config = settings.load(overrides={"redis.url": "unix:///nonexistent/socket", "webhooks.to.a": GOOD}, environ={})
    link = Link(config.redis)
    duties = deliverer.Webhooks(link, config).duties()
    watched = loop_watch.LoopWatch()
    async with anyio.create_task_group() as tasks:
        for name, duty in duties.items():
            tasks.start_soon(watched.watched(name, duty))
        await anyio.wait_all_tasks_blocked()
        [loop] = watched._loops
        first_s = loop.due_s
        assert first_s is not None
        later = functools.partial(wait_until, lambda: (loop.due_s or 0) > first_s, what="another step")
        await anyio.to_thread.run_sync(later)
        tasks.cancel_scope.cancel()
    await link.close()
