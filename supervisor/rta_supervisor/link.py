"""The connection to Redis: made so that nothing is repeated behind our back, and checked before it is trusted."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import redis.asyncio
import redis.backoff
import redis.exceptions
import redis.maint_notifications
import redis.retry

from rta_supervisor import batches, calls, settings
from rta_wire import errors

LUA: Final = Path(__file__).parent / "lua"
MIN_REDIS: Final = (7, 0)
MIN_VALKEY: Final = (7, 2)
RETRY_PAUSE_S: Final = 0.2

Outage = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)
"""Errors that say that Redis is away: what was sent may or may not have been done."""


Refusal = (
    redis.exceptions.OutOfMemoryError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.TryAgainError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.MasterDownError,
)
"""Answers that say that Redis can't now and may later: nothing was done."""


class DataLost(Exception):
    """Redis does not know what we had put there: it lost data, and somebody has to make it whole."""


Trouble = (*Outage, *Refusal, DataLost)
"""Everything that passes by itself or is made good by another task: wait and try again."""


def _checked(error: redis.exceptions.RedisError) -> Exception:
    text = str(error)
    return DataLost(text) if "NOGROUP" in text or "Function not found" in text else error


class Link:
    """One Redis, with as many connections as there are users of it at a time."""

    def __init__(self, config: settings.RedisSettings) -> None:
        self.config = config
        try:
            self.client = redis.asyncio.Redis.from_url(
                config.url,
                socket_timeout=config.timeout_s,
                socket_connect_timeout=config.timeout_s,
                retry=redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 0),
                maint_notifications_config=redis.maint_notifications.MaintNotificationsConfig(enabled=False),
                protocol=2,
                parser_class=batches.Parser,
            )
        except ValueError as error:
            raise errors.BadConfiguration(where="redis.url", reason=str(error)) from error
        # Answers as Redis gave them: redis-py's own shapes change with its version and cost time on the hot path.
        self.client.response_callbacks.clear()

    async def do(self, *call: calls.Word) -> Any:
        """One command, given as its words."""
        [answer] = await self.do_all([call])
        return answer

    async def do_all(self, batch: Sequence[calls.Call]) -> list[Any]:
        """All of them in one round trip, in order. Not a transaction; the first error is raised after all have run."""
        answers = await self.try_all(batch)
        if error := batches.first_error(answers):
            raise _checked(error)
        return answers

    async def try_all(self, batch: Sequence[calls.Call]) -> list[Any]:
        """The same, with errors among the answers."""
        if not batch:
            return []
        return await batches.exchange(self.client.connection_pool, batch)

    async def close(self) -> None:
        await self.client.aclose()

    async def connect(self) -> None:
        """Wait for the server as long as we are told to, then check that it will do."""
        deadline_s = anyio.current_time() + self.config.startup_patience_s
        while True:
            try:
                return await self.check()
            except redis.exceptions.AuthenticationError as error:
                raise errors.BadConfiguration(where="redis.url", reason=f"the server refuses it: {error}") from error
            except Outage as error:
                if anyio.current_time() >= deadline_s:
                    raise self.named(error) from error
                await anyio.sleep(RETRY_PAUSE_S)

    async def check(self) -> None:
        """Refuse a server on which sessions would be lost or functions are not there, and say what to do."""
        if problem := unsuitable(parse_info(await self.do("INFO", "everything")), self.config):
            raise problem

    async def load_functions(self) -> None:
        """Put our Lua libraries on the server. Their names carry a version: an older supervisor keeps its own."""
        for path in sorted(LUA.glob("*.lua")):
            await self.do("FUNCTION", "LOAD", "REPLACE", path.read_text())

    def named(self, error: BaseException) -> errors.RtaError:
        """What to tell a person about trouble with Redis."""
        url, reason = safe_url(self.config.url), _first_line(error)
        if isinstance(error, redis.exceptions.OutOfMemoryError):
            return errors.RedisFull(url=url, reason=reason)
        if isinstance(error, redis.exceptions.ReadOnlyError):
            return errors.RedisUnsuitable(url=url, reason="it is read-only. Name the primary")
        return errors.RedisUnreachable(url=url, reason=reason)


def unsuitable(info: Mapping[str, str], config: settings.RedisSettings) -> errors.RtaError | None:
    """Why a server won't do, judged by what it says of itself."""
    url = safe_url(config.url)
    product, minimum = ("Valkey", MIN_VALKEY) if "valkey_version" in info else ("Redis", MIN_REDIS)
    version = info.get("valkey_version") or info.get("redis_version", "0.0")
    if tuple(int(part) for part in version.split(".")[:2]) < minimum:
        wanted = ".".join(map(str, minimum))
        reason = f"it is {product} {version}; its functions need {wanted} or newer. Upgrade it"
        return errors.RedisUnsuitable(url=url, reason=reason)
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and not config.allow_eviction:
        reason = f"its maxmemory-policy is {policy}, which drops sessions silently. Set it to noeviction"
        return errors.RedisUnsuitable(url=url, reason=reason)
    if info.get("role") == "slave" and info.get("slave_read_only", "1") == "1":
        return errors.RedisUnsuitable(url=url, reason="it is a read-only replica. Name the primary")
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if 0 < most <= used:
        return errors.RedisFull(url=url, reason=f"it uses {used} of {most} bytes")
    return None


def pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """A hash as Redis answers it: names and values in turn."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def parse_info(raw: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in raw.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, separator, value in lines if separator}


def safe_url(url: str) -> str:
    """The URL without its password, for people and logs."""
    scheme, separator, rest = url.partition("://")
    account, at, host = rest.rpartition("@")
    if not at:
        return url
    user = account.partition(":")[0]
    return f"{scheme}{separator}{user}:***@{host}"


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
