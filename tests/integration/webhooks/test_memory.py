"""Deliveries leave nothing behind in the process."""

import asyncio
import gc
import types
from collections.abc import Awaitable, Callable

import anyio

from rta_supervisor.diagnostics import counters
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks.server_functions import NewDelivery
from rta_supervisor.webhooks.webhooks import Webhooks
from tests.integration.webhooks.receiver import SECRET, receiving

FAILURES, DELIVERIES = 5, 60


def reachable(*roots: object) -> int:
    """How many objects can be reached from others, without code, the event loop and connections to Redis."""
    code = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
    left_out = (*code, Link, anyio.Event, asyncio.Event, asyncio.AbstractEventLoop)
    seen: dict[int, object] = {}
    stack: list[object] = list(roots)
    while stack:
        each = stack.pop()
        if id(each) not in seen and not isinstance(each, left_out):
            seen[id(each)] = each
            # The collector does not visit keys that are text.
            stack += [*each, *each.values()] if isinstance(each, dict) else gc.get_referents(each)
    return len(seen)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(15):
        while not await condition():  # noqa: ASYNC110 - it is about Redis and a thread
            await anyio.sleep(0.005)


async def test_delivered_changes_are_forgotten(url: str, link: Link) -> None:
    """After as many deliveries again, all of other sessions and principals and some at the second try, webhooks and
    counters hold no more objects than before them."""
    with receiving() as receiver:
        quick = {"first_retry_s": 0.001, "breaker_failures": 1000, "to.r0": {"url": receiver.url, "secret": SECRET}}
        overrides = {"redis.url": url, **{f"webhooks.{name}": value for name, value in quick.items()}}
        config = settings.load(overrides=overrides, environ={})
        webhooks = Webhooks(link, config)
        [queue] = webhooks.outbox._queues.values()
        [run] = webhooks.duties().values()

        async def is_delivered() -> bool:
            return not await link.do("ZCARD", config.keys.hook_due("r0"))

        async def has_failed() -> bool:
            return len(receiver.posts) >= FAILURES

        async def deliver(first: int) -> int:
            """How many objects there are after some more deliveries."""
            receiver.answer = 500
            for number in range(first, first + DELIVERIES):
                await link.do(*queue.add_command(NewDelivery(f"d{number}", b"{}", 1, f"p{number}", f"s{number}", 1)))
            webhooks._wake("r0")
            await until(has_failed)
            receiver.answer = 204
            await until(is_delivered)
            receiver.posts.clear()
            return reachable(webhooks, counters.counts)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            before = await deliver(0)
            after = await deliver(DELIVERIES)
            tasks.cancel_scope.cancel()
    assert after - before < DELIVERIES // 2
