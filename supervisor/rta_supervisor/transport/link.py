"""The connection to Redis: made so that nothing is repeated behind our back, and checked before it is trusted."""

from collections.abc import Iterable, Sequence
from typing import Any

import redis.asyncio
import redis.backoff
import redis.exceptions
import redis.maint_notifications
import redis.retry

from rta_supervisor.settings import settings
from rta_supervisor.transport import (
    cluster,
    commands,
    failures,
    outage_log,
    pipeline,
    topology,
)
from rta_wire import credentials, keys, redis_errors, redis_url


class Link:
    """One Redis, with as many connections as there are users of it at a time."""

    def __init__(self, config: settings.RedisSettings) -> None:
        self.config = config
        self.outage_log = outage_log.OutageLog()
        way = credentials.resolve_url(config.url, {name: getattr(config, name) for name in credentials.FILES})
        self.address = redis_url.parse(way.url, where="redis.url")
        options = {
            "socket_timeout": config.timeout_s,
            "socket_connect_timeout": config.timeout_s,
            "retry": redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 0),
            "maint_notifications_config": redis.maint_notifications.MaintNotificationsConfig(enabled=False),
            # Answers as Redis gave them: redis-py's own shapes change with its version and cost time on the hot path.
            "protocol": 2,
            "parser_class": pipeline.BatchParser,
            # Not told to the server: an ACL that allows it keeps a Redis 7.0 from starting.
            "driver_info": None,
            **way.options,
        }
        try:
            self.topology = _route(self.address, options)
        except ValueError as error:
            raise redis_url.bad_url(way.url, error) from error

    async def do(self, *call: commands.Argument) -> Any:
        """One command, given as its words."""
        [answer] = await self.do_all([call])
        return answer

    async def do_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        """All of them in one round trip. Not a transaction; the first error is raised after all have run.

        In order, but where each slot has its own server only those of a slot are.
        """
        answers = await self.try_all(batch)
        if error := pipeline.first_error(answers):
            raise failures.classify(error)
        return answers

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        """The same, with errors among the answers."""
        if not batch:
            return []
        try:
            return await self.topology.exchange(batch)
        except failures.OUTAGE_ERRORS as error:
            found = redis_errors.classify(error)
            if found is not None and found.kind is redis_errors.FailureKind.PERMANENT:
                raise failures.to_rta_error(self.config.url, error) from error
            raise

    async def do_in_order(self, batch: Sequence[commands.Command]) -> list[Any]:
        """All of them, each after the one before it, whichever server has its keys."""
        if self.is_one_server:
            return await self.do_all(batch)
        return [await self.do(*call) for call in batch]

    @property
    def is_one_server(self) -> bool:
        """Whether one call can be about keys of any slot."""
        return self.address.mode is not redis_url.RedisMode.CLUSTER

    def spans_slots(self, keys_: Iterable[str]) -> bool:
        """Whether no command can be about all of these keys at once."""
        return not self.is_one_server and len({keys.key_slot(key) for key in keys_}) > 1

    async def do_on_primaries(self, *call: commands.Argument) -> list[Any]:
        """One command to every server that takes writes."""
        answers = [answer for send in await self.topology.senders() for answer in await send([call])]
        if error := pipeline.first_error(answers):
            raise failures.classify(error)
        return answers

    async def close(self) -> None:
        await self.topology.close()


def _route(where: redis_url.RedisUrl, options: dict[str, Any]) -> topology.Topology:
    """The route that an address asks for. `options` are those of each connection."""
    if where.mode is redis_url.RedisMode.SENTINEL:
        return topology.SentinelTopology(where, options)
    if where.mode is redis_url.RedisMode.CLUSTER:
        return cluster.ClusterTopology(where, options)
    return topology.SingleServer(redis.asyncio.ConnectionPool.from_url(where.url, **options))
