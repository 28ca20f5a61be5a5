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

from rta_supervisor import batches, calls, cluster, complaints, routes, settings
from rta_wire import access, address, errors, outcomes

LUA: Final = Path(__file__).parent / "lua"
MIN_REDIS: Final = (7, 0)
MIN_VALKEY: Final = (7, 2)
RETRY_PAUSE_S: Final = 0.2

Outage = routes.Outage


class Refused(Exception):
    """An answer that says that Redis can't now and may later: nothing was done. The answer is the cause."""


Refusal = (Refused,)


class DataLost(Exception):
    """Redis does not know what we had put there: it lost data, and somebody has to make it whole."""


Trouble = (*Outage, *Refusal, DataLost)
"""Everything that passes by itself or is made good by another task: wait and try again."""


def checked(error: Exception) -> Exception:
    """An error that Redis answered, as the table sorts it. What will never work stays as it is."""
    found = outcomes.verdict(error)
    if found is None or found.sort is not outcomes.Sort.NOT_DONE:
        return error
    kind = DataLost if found.code in outcomes.FORGOTTEN else Refused
    sorted_ = kind(str(error))
    sorted_.__cause__ = error
    return sorted_


class Link:
    """One Redis, with as many connections as there are users of it at a time."""

    def __init__(self, config: settings.RedisSettings) -> None:
        self.config = config
        self.complaints = complaints.Complaints()
        way = access.way(config.url, {name: getattr(config, name) for name in access.FILES})
        self.address = address.parse(way.url, where="redis.url")
        options = {
            "socket_timeout": config.timeout_s,
            "socket_connect_timeout": config.timeout_s,
            "retry": redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 0),
            "maint_notifications_config": redis.maint_notifications.MaintNotificationsConfig(enabled=False),
            # Answers as Redis gave them: redis-py's own shapes change with its version and cost time on the hot path.
            "protocol": 2,
            "parser_class": batches.Parser,
            # Not told to the server: an ACL that allows it keeps a Redis 7.0 from starting.
            "driver_info": None,
            **way.options,
        }
        try:
            self.route = _route(self.address, options)
        except ValueError as error:
            raise access.unusable(way.url, error) from error

    async def do(self, *call: calls.Word) -> Any:
        """One command, given as its words."""
        [answer] = await self.do_all([call])
        return answer

    async def do_all(self, batch: Sequence[calls.Call]) -> list[Any]:
        """All of them in one round trip. Not a transaction; the first error is raised after all have run.

        In order, but where each slot has its own server only those of a slot are.
        """
        answers = await self.try_all(batch)
        if error := batches.first_error(answers):
            raise checked(error)
        return answers

    async def try_all(self, batch: Sequence[calls.Call]) -> list[Any]:
        """The same, with errors among the answers."""
        if not batch:
            return []
        try:
            return await self.route.exchange(batch)
        except Outage as error:
            found = outcomes.verdict(error)
            if found is not None and found.sort is outcomes.Sort.NEVER:
                raise self.named(error) from error
            raise

    async def do_in_order(self, batch: Sequence[calls.Call]) -> list[Any]:
        """All of them, each after the one before it, whichever server has its keys."""
        if self.is_one_server:
            return await self.do_all(batch)
        return [await self.do(*call) for call in batch]

    @property
    def is_one_server(self) -> bool:
        """Whether one call can be about keys of any slot."""
        return self.address.kind is not address.Kind.CLUSTER

    def is_divided(self, keys_: Iterable[str]) -> bool:
        """Whether no command can be about all of these keys at once."""
        return not self.is_one_server and len({address.slot(key) for key in keys_}) > 1

    async def everywhere(self, *call: calls.Word) -> list[Any]:
        """One command to every server that takes writes."""
        answers = [answer for send in await self.route.each() for answer in await send([call])]
        if error := batches.first_error(answers):
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
                found = outcomes.verdict(error)
                is_hopeless = found is not None and found.sort is outcomes.Sort.NEVER
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
        for path in sorted(LUA.glob("*.lua")):
            await self.everywhere("FUNCTION", "LOAD", "REPLACE", path.read_text())

    async def has_functions(self) -> bool:
        """Whether all of our libraries are there already."""
        wanted = {path.read_text().partition("\n")[0].partition("name=")[2].encode() for path in LUA.glob("*.lua")}
        lists = await self.everywhere("FUNCTION", "LIST", "LIBRARYNAME", "rtas_*")
        return all(wanted <= {pairs(library)[b"library_name"] for library in found} for found in lists)

    def named(self, error: BaseException) -> errors.RtaError:
        """What to tell a person about trouble with Redis."""
        url = access.safe(self.config.url)
        found = outcomes.verdict(error.__cause__ or error if isinstance(error, Refused | DataLost) else error)
        if found is None:
            return errors.RedisUnreachable(url=url, reason=outcomes.first_line(error))
        if found.code == outcomes.FULL:
            return errors.RedisFull(url=url, reason=found.said)
        if found.code in outcomes.READ_ONLY:
            return errors.RedisUnsuitable(url=url, reason=f"{found.meaning}. Name the primary")
        if found.sort is outcomes.Sort.NEVER:
            return errors.RedisRefused(url=url, reason=str(found))
        return errors.RedisUnreachable(url=url, reason=found.said)


def is_about_keys(error: Exception) -> bool:
    """Whether an answer is about the keys of one session, and not about us: what their writer spoilt is its loss."""
    found = outcomes.verdict(error)
    return found is not None and found.code in outcomes.OF_ONE_KEY


def _route(where: address.Address, options: dict[str, Any]) -> routes.Route:
    """The route that an address asks for. `options` are those of each connection."""
    if where.kind is address.Kind.SENTINEL:
        return routes.Sentinel(where, options)
    if where.kind is address.Kind.CLUSTER:
        return cluster.Cluster(where, options)
    return routes.Single(redis.asyncio.ConnectionPool.from_url(where.url, **options))


def unsuitable(info: Mapping[str, str], config: settings.RedisSettings) -> errors.RtaError | None:
    """Why a server won't do, judged by what it says of itself."""
    url = access.safe(config.url)
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


safe_url = access.safe


def parse_info(raw: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in raw.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, separator, value in lines if separator}
