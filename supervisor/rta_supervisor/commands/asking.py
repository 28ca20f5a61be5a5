"""How a command talks to Redis: one connection for its length, and a sentence for everything that can go wrong."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import redis.exceptions

from rta_supervisor import settings
from rta_supervisor.link import DataLost, Link, Outage, Refusal, safe_url
from rta_wire import errors

T = TypeVar("T")


def run(loaded: settings.Settings, work: Callable[[Link], Awaitable[T]]) -> T:
    """What `work` gives, or an error with a name and an exit code."""

    async def connected() -> T:
        link = Link(loaded.redis)
        try:
            return await work(link)
        except (*Outage, *Refusal, DataLost, redis.exceptions.ResponseError) as error:
            raise named(link, error) from error
        finally:
            await link.close()

    return anyio.run(connected)


def named(link: Link, error: Exception) -> errors.RtaError:
    """What to tell a person. What a supervisor loads is not there where none has run."""
    return errors.NoSupervisor(url=safe_url(link.config.url)) if isinstance(error, DataLost) else link.named(error)
