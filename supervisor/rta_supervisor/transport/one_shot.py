"""How a command talks to Redis: one connection for its length, and a sentence for everything that can go wrong."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import anyio
import redis.exceptions

from rta_supervisor.settings import settings
from rta_supervisor.transport import failures
from rta_supervisor.transport.link import Link
from rta_wire import errors, redis_url

T = TypeVar("T")


def run(loaded: settings.Settings, work: Callable[[Link], Awaitable[T]]) -> T:
    """What `work` gives, or an error with a name and an exit code."""

    async def connected() -> T:
        link = Link(loaded.redis)
        try:
            with _interruptible():
                return await work(link)
        except failures.DataLost as error:
            # What a supervisor loads is not there where none has run.
            raise errors.NoSupervisor(url=redis_url.redact(link.config.url)) from error
        except (*failures.OUTAGE_ERRORS, *failures.REFUSAL_ERRORS, redis.exceptions.ResponseError) as error:
            raise failures.to_rta_error(link.config.url, error) from error
        finally:
            await link.close()

    return anyio.run(connected)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends what is in the block. A scope insists: asyncio's own way is lost where somebody swallows it once."""
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
