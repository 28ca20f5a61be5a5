"""Runs the Redis work of one command line: a link for its length, and an error for people if it fails."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import anyio
import redis.exceptions

from rta_supervisor.diagnostics import log
from rta_supervisor.settings import settings
from rta_supervisor.transport import failures
from rta_supervisor.transport.link import Link
from rta_wire import errors, redis_url

T = TypeVar("T")


def run(config: settings.Settings, work: Callable[[Link], Awaitable[T]]) -> T:
    """The result of `work`. Errors of Redis are raised as `RtaError`, with an exit code."""

    log.configure_for_command()

    async def connected() -> T:
        link = Link(config.redis)
        try:
            with _interruptible():
                return await work(link)
        except failures.DataLost as error:
            # Functions and groups that a supervisor makes are missing: none has run here.
            raise errors.NoSupervisor(url=redis_url.redact(link.config.url), prefix=config.keys.prefix) from error
        except (*failures.OUTAGE_ERRORS, *failures.REFUSAL_ERRORS, redis.exceptions.ResponseError) as error:
            raise failures.to_rta_error(link.config.url, error) from error
        finally:
            await link.close()

    return anyio.run(connected)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C cancels the block. A cancel scope cancels at each await; asyncio cancels once, which is lost if a library
    swallows it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    with anyio.CancelScope() as scope:
        loop.add_signal_handler(signal.SIGINT, scope.cancel)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
    if scope.cancelled_caught:
        raise KeyboardInterrupt
