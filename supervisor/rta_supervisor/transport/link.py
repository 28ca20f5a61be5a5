"""The connection to Redis: made so that nothing is repeated behind our back, and checked before it is trusted."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import redis.asyncio
import redis.backoff
import redis.exceptions
import redis.maint_notifications
import redis.retry

from rta_supervisor.settings import settings
from rta_supervisor.transport import cluster, commands, outage_log, pipeline, topology
from rta_wire import credentials, errors, redis_errors, redis_url

PACKAGE: Final = Path(__file__).parents[1]
MIN_REDIS: Final = (7, 0)
MIN_VALKEY: Final = (7, 2)
RETRY_PAUSE_S: Final = 0.2

Outage = topology.Outage


class Refused(Exception):
    """An answer that says that Redis can't now and may later: nothing was done. The answer is the cause."""


Refusal = (Refused,)


class DataLost(Exception):
    """Redis does not know what we had put there: it lost data, and somebody has to make it whole."""


Trouble = (*Outage, *Refusal, DataLost)
"""Everything that passes by itself or is made good by another task: wait and try again."""


def checked(error: Exception) -> Exception:
    """An error that Redis answered, as the table sorts it. What will never work stays as it is."""
    found = redis_errors.verdict(error)
    if found is None or found.sort is not redis_errors.Sort.NOT_DONE:
        return error
    kind = DataLost if found.code in redis_errors.FORGOTTEN else Refused
    sorted_ = kind(str(error))
    sorted_.__cause__ = error
    return sorted_


def libraries() -> list[str]:
    """The code of our libraries of server functions: each stands beside the package that owns its keys."""
    return [path.read_text() for path in sorted(PACKAGE.rglob("*.lua"))]


class Link:
    """One Redis, with as many connections as there are users of it at a time."""

    def __init__(self, config: settings.RedisSettings) -> None:
        self.config = config
        self.complaints = outage_log.Complaints()
        way = credentials.way(config.url, {name: getattr(config, name) for name in credentials.FILES})
        self.address = redis_url.parse(way.url, where="redis.url")
        options = {
            "socket_timeout": config.timeout_s,
            "socket_connect_timeout": config.timeout_s,
            "retry": redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 0),
            "maint_notifications_config": redis.maint_notifications.MaintNotificationsConfig(enabled=False),
            # Answers as Redis gave them: redis-py's own shapes change with its version and cost time on the hot path.
            "protocol": 2,
            "parser_class": pipeline.Parser,
            # Not told to the server: an ACL that allows it keeps a Redis 7.0 from starting.
            "driver_info": None,
            **way.options,
        }
        try:
            self.route = _route(self.address, options)
        except ValueError as error:
            raise credentials.unusable(way.url, error) from error

    async def do(self, *call: commands.Word) -> Any:
        """One command, given as its words."""
        [answer] = await self.do_all([call])
        return answer

    async def do_all(self, batch: Sequence[commands.Call]) -> list[Any]:
        """All of them in one round trip. Not a transaction; the first error is raised after all have run.

        In order, but where each slot has its own server only those of a slot are.
        """
        answers = await self.try_all(batch)
        if error := pipeline.first_error(answers):
            raise checked(error)
        return answers

    async def try_all(self, batch: Sequence[commands.Call]) -> list[Any]:
        """The same, with errors among the answers."""
        if not batch:
            return []
        try:
            return await self.route.exchange(batch)
        except Outage as error:
            found = redis_errors.verdict(error)
            if found is not None and found.sort is redis_errors.Sort.NEVER:
                raise self.named(error) from error
            raise

    async def do_in_order(self, batch: Sequence[commands.Call]) -> list[Any]:
        """All of them, each after the one before it, whichever server has its keys."""
        if self.is_one_server:
            return await self.do_all(batch)
        return [await self.do(*call) for call in batch]

    @property
    def is_one_server(self) -> bool:
        """Whether one call can be about keys of any slot."""
        return self.address.kind is not redis_url.Kind.CLUSTER

    def is_divided(self, keys_: Iterable[str]) -> bool:
        """Whether no command can be about all of these keys at once."""
        return not self.is_one_server and len({redis_url.slot(key) for key in keys_}) > 1

    async def everywhere(self, *call: commands.Word) -> list[Any]:
        """One command to every server that takes writes."""
        answers = [answer for send in await self.route.each() for answer in await send([call])]
        if error := pipeline.first_error(answers):
            raise checked(error)
        return answers

    async def close(self) -> None:
        await self.route.close()

    async def connect(self) -> None:
        """Wait for the server as long as we are told to, then check that it will do."""
        deadline_s = anyio.current_time() + self.config.startup_patience_s
        while True:
            try:
                return await self.check()
            except redis.exceptions.ResponseError as error:
                raise self.named(error) from error
            except (*Outage, *Refusal) as error:
                found = redis_errors.verdict(error)
                is_hopeless = found is not None and found.sort is redis_errors.Sort.NEVER
                if is_hopeless or anyio.current_time() >= deadline_s:
                    raise self.named(error) from error
                await anyio.sleep(RETRY_PAUSE_S)

    async def check(self) -> None:
        """Refuse a server on which sessions would be lost or functions are not there, and say what to do."""
        infos = [parse_info(raw) for raw in await self.everywhere("INFO", "everything")]
        problem = next((found for info in infos if (found := unsuitable(info, self.config))), None)
        if problem is None or (isinstance(problem, errors.RedisFull) and await self.has_functions()):
            # One that is full and knows us is taken: only we make room there.
            return
        raise problem

    async def load_functions(self) -> None:
        """Put our Lua libraries on the server. Their names carry a version: an older supervisor keeps its own."""
        for library in libraries():
            await self.everywhere("FUNCTION", "LOAD", "REPLACE", library)

    async def has_functions(self) -> bool:
        """Whether all of our libraries are there already."""
        wanted = {library.partition("\n")[0].partition("name=")[2].encode() for library in libraries()}
        lists = await self.everywhere("FUNCTION", "LIST", "LIBRARYNAME", "rtas_*")
        return all(wanted <= {pairs(library)[b"library_name"] for library in found} for found in lists)

    def named(self, error: BaseException) -> errors.RtaError:
        """What to tell a person about trouble with Redis."""
        url = credentials.safe(self.config.url)
        found = redis_errors.verdict(error.__cause__ or error if isinstance(error, Refused | DataLost) else error)
        if found is None:
            return errors.RedisUnreachable(url=url, reason=redis_errors.first_line(error))
        if found.code == redis_errors.FULL:
            return errors.RedisFull(url=url, reason=found.said)
        if found.code in redis_errors.READ_ONLY:
            return errors.RedisUnsuitable(url=url, reason=f"{found.meaning}. Name the primary")
        if found.sort is redis_errors.Sort.NEVER:
            return errors.RedisRefused(url=url, reason=str(found))
        return errors.RedisUnreachable(url=url, reason=found.said)


def is_about_keys(error: Exception) -> bool:
    """Whether an answer is about the keys of one session, and not about us: what their writer spoilt is its loss."""
    found = redis_errors.verdict(error)
    return found is not None and found.code in redis_errors.OF_ONE_KEY


def _route(where: redis_url.Address, options: dict[str, Any]) -> topology.Route:
    """The route that an address asks for. `options` are those of each connection."""
    if where.kind is redis_url.Kind.SENTINEL:
        return topology.Sentinel(where, options)
    if where.kind is redis_url.Kind.CLUSTER:
        return cluster.Cluster(where, options)
    return topology.Single(redis.asyncio.ConnectionPool.from_url(where.url, **options))


def unsuitable(info: Mapping[str, str], config: settings.RedisSettings) -> errors.RtaError | None:
    """Why a server won't do, judged by what it says of itself."""
    url = credentials.safe(config.url)
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


safe_url = credentials.safe


def parse_info(raw: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in raw.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, separator, value in lines if separator}
