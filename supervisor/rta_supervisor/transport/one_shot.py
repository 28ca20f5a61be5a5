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
from rta_wire import errors, keys, redis_url

T = TypeVar("T")


def run(config: settings.Settings, work: Callable[[Link], Awaitable[T]], *, is_prefix_checked: bool = True) -> T:
    """The result of `work`. Errors of Redis are raised as `RtaError`, with an exit code.

    `is_prefix_checked`: whether it is an error that no supervisor ever registered under a prefix which somebody chose.
    """

    log.configure_for_command()

    async def connected() -> T:
        link = Link(config.redis)
        try:
            with _interruptible():
                is_registered = await _learn_template(link, config)
                if is_prefix_checked and not is_registered and config.keys.prefix != keys.Keys().prefix:
                    raise errors.NoSupervisor(url=redis_url.redact(link.config.url), prefix=config.keys.prefix)
                return await work(link)
        except failures.DataLost as error:
            # Functions and groups that a supervisor makes are missing: none has run here.
            raise errors.NoSupervisor(url=redis_url.redact(link.config.url), prefix=config.keys.prefix) from error
        except (*failures.OUTAGE_ERRORS, *failures.REFUSAL_ERRORS, redis.exceptions.ResponseError) as error:
            raise failures.to_rta_error(link.config.url, error) from error
        finally:
            await link.close()

    return anyio.run(connected)


async def _learn_template(link: Link, config: settings.Settings) -> bool:
    """Put the template of session keys that supervisors registered into the settings, as clients do: with another one
    no session would be found. Gives whether any is known to have registered."""
    names = config.keys
    try:
        template, seen_ms = await link.do("HMGET", names.last_registration(), keys.NODE_TEMPLATE, keys.NODE_SEEN_MS)
        # Supervisors before 0.2 are only in the list of those that run.
        is_registered = seen_ms is not None or bool(await link.do("ZRANGE", names.nodes(), 0, 0))
    except (*failures.OUTAGE_ERRORS, *failures.REFUSAL_ERRORS, redis.exceptions.ResponseError):
        return True  # the command itself says what is wrong
    if template is not None:
        config.keys = keys.Keys(prefix=names.prefix, session_template=template.decode())
    return is_registered


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
