"""Whether a Redis server can be used: waits until it answers, and judges it by its INFO."""

from collections.abc import Mapping
from typing import Final

import anyio
import redis.exceptions

from rta_supervisor.settings import settings
from rta_supervisor.transport import failures, function_loader, replies
from rta_supervisor.transport.link import Link
from rta_wire import errors, redis_errors, redis_url

MIN_REDIS: Final = (7, 0)
MIN_VALKEY: Final = (7, 2)
RETRY_PAUSE_S: Final = 0.2


async def connect(link: Link) -> None:
    """Wait for the server for `redis.startup_patience_s`, then check it."""
    deadline_s = anyio.current_time() + link.config.startup_patience_s
    while True:
        try:
            return await check(link)
        except redis.exceptions.ResponseError as error:
            raise failures.to_rta_error(link.config.url, error) from error
        except (*failures.OUTAGE_ERRORS, *failures.REFUSAL_ERRORS) as error:
            failure = redis_errors.classify(error)
            is_permanent = failure is not None and failure.kind is redis_errors.FailureKind.PERMANENT
            if is_permanent or anyio.current_time() >= deadline_s:
                raise failures.to_rta_error(link.config.url, error) from error
            await anyio.sleep(RETRY_PAUSE_S)


async def check(link: Link) -> None:
    """Refuse a server that would lose sessions or can't run our functions, with what to do about it."""
    infos = [replies.parse_info(raw) for raw in await link.do_on_primaries("INFO", "everything")]
    problems = (find_problem(info, link.config) for info in infos)
    problem = next((problem for problem in problems if problem is not None), None)
    if problem is None:
        return
    # A server that is full and has our functions was ours before: only a supervisor makes room there.
    if not isinstance(problem, errors.RedisFull) or not await function_loader.are_loaded(link):
        raise problem


def find_problem(info: Mapping[str, str], config: settings.RedisSettings) -> errors.RtaError | None:
    """Why a server can't be used, judged by its INFO; None if it can."""
    url = redis_url.redact(config.url)
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
    used_bytes, max_bytes = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if 0 < max_bytes <= used_bytes:
        return errors.RedisFull(url=url, reason=f"it uses {used_bytes} of {max_bytes} bytes")
    return None
