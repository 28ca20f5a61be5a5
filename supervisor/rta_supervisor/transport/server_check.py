"""Whether a server will do, judged by what it says of itself."""

from collections.abc import Mapping
from typing import Final

from rta_supervisor.settings import settings
from rta_wire import errors, redis_url

MIN_REDIS: Final = (7, 0)


MIN_VALKEY: Final = (7, 2)


def find_problem(info: Mapping[str, str], config: settings.RedisSettings) -> errors.RtaError | None:
    """Why a server won't do, judged by what it says of itself."""
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
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if 0 < most <= used:
        return errors.RedisFull(url=url, reason=f"it uses {used} of {most} bytes")
    return None
