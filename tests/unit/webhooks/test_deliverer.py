"""The loop of a target: watched, also while Redis is away."""

import functools

import anyio
import anyio.to_thread
import pytest

from rta_supervisor.diagnostics import loop_watch
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks import deliverer
from rta_supervisor.webhooks import webhooks as webhooks_webhooks
from tests.support.waiting import wait_until

TARGET = {"url": "https://example.com/x", "secret": "0123456789abcdef"}


async def test_each_target_is_a_loop_under_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reports that it is alive in every round, also while Redis is away, so that it is not taken for stuck."""
    monkeypatch.setattr(deliverer, "OUTAGE_PAUSE_S", 0.01)
    config = settings.load(overrides={"redis.url": "unix:///nonexistent/socket", "webhooks.to.a": TARGET}, environ={})
    link = Link(config.redis)
    duties = webhooks_webhooks.Webhooks(link, config).duties()
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
