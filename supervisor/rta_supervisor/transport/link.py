"""Sends commands to Redis and gives their replies. Nothing is retried: after an outage a command may have been done."""

from collections.abc import Iterable, Sequence
from typing import Any

import redis.asyncio
import redis.backoff
import redis.exceptions
import redis.maint_notifications
import redis.retry

from rta_supervisor.settings import settings
from rta_supervisor.transport import cluster, commands, failures, outage_log, pipeline, topology
from rta_wire import credentials, keys, redis_errors, redis_url


class Link:
    """One Redis of any topology, with as many connections as there are users of it at a time."""

    def __init__(self, config: settings.RedisSettings) -> None:
        self.config = config
        self.outage_log = outage_log.OutageLog()
        resolved = credentials.resolve_url(config.url, {name: getattr(config, name) for name in credentials.FILES})
        self.address = redis_url.parse(resolved.url, where="redis.url")
        options = resolved.client_options(config.timeout_s) | {
            "retry": redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 0),
            "maint_notifications_config": redis.maint_notifications.MaintNotificationsConfig(enabled=False),
            # Replies as Redis sent them: redis-py's own shapes change with its version and cost time on the hot path.
            "protocol": 2,
            "parser_class": pipeline.BatchParser,
        }
        try:
            self.topology = _topology(self.address, options)
        except ValueError as error:
            raise redis_url.bad_url(resolved.url, error) from error

    async def do(self, *command: commands.Argument) -> Any:
        """The reply to one command. An error reply is raised, as `failures.classify` sorts it."""
        [reply] = await self.do_all([command])
        return reply

    async def do_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        """The replies to a batch of commands, which is sent in one round trip and is no transaction.

        The first error reply is raised after all commands have run. They run in order; in a Cluster only those of one
        slot do.
        """
        replies = await self.try_all(batch)
        _raise_first_error(replies)
        return replies

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        """The replies to a batch of commands as `do_all` sends it, with errors among them as exceptions."""
        if not batch:
            return []
        try:
            return await self.topology.exchange(batch)
        except failures.OUTAGE_ERRORS as error:
            failure = redis_errors.classify(error)
            if failure is not None and failure.kind is redis_errors.FailureKind.PERMANENT:
                raise failures.to_rta_error(self.config.url, error) from error
            raise

    async def do_in_order(self, batch: Sequence[commands.Command]) -> list[Any]:
        """The replies to a batch of commands that run one after another, also if several servers have their keys."""
        if self.is_cluster:
            return [await self.do(*command) for command in batch]
        return await self.do_all(batch)

    @property
    def is_cluster(self) -> bool:
        """Whether this is a Cluster, where one command can only be about keys of one slot."""
        return self.address.mode is redis_url.RedisMode.CLUSTER

    def spans_slots(self, keys_: Iterable[str]) -> bool:
        """Whether the keys are in more than one slot of a Cluster, so that no command can be about all of them."""
        return self.is_cluster and len({keys.key_slot(key) for key in keys_}) > 1

    async def do_on_primaries(self, *command: commands.Argument) -> list[Any]:
        """The replies of every server that takes writes to one command."""
        replies = [reply for send in await self.topology.senders() for reply in await send([command])]
        _raise_first_error(replies)
        return replies

    async def close(self) -> None:
        """Close all connections."""
        await self.topology.close()


def _raise_first_error(replies: Sequence[Any]) -> None:
    for reply in replies:
        if isinstance(reply, redis.exceptions.RedisError):
            raise failures.classify(reply)


def _topology(address: redis_url.RedisUrl, options: dict[str, Any]) -> topology.Topology:
    """The topology that a URL names. `options` are those of each connection."""
    if address.mode is redis_url.RedisMode.SENTINEL:
        return topology.SentinelTopology(address, options)
    if address.mode is redis_url.RedisMode.CLUSTER:
        return cluster.ClusterTopology(address, options)
    return topology.SingleServer(address.url, options)
