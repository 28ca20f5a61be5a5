"""This supervisor in the registry of those that run, so that clients know that somebody listens."""

import os
import socket
import uuid

from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import __version__, keys


async def running_nodes(link: Link, names: keys.Keys) -> dict[str, dict[bytes, bytes]]:
    """Supervisors that are registered and alive: what each says of itself, by its id."""
    ids = [raw.decode() for raw in await link.do("ZRANGE", names.nodes(), 0, -1)]
    replies = await link.do_all([("HGETALL", names.node(node_id)) for node_id in ids])
    return {node_id: pairs_to_dict(reply) for node_id, reply in zip(ids, replies, strict=True) if reply}


class Node:
    """This supervisor in the registry."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self.id = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
        self._link = link
        self._keys = config.keys
        self._config = config.node

    async def register(self) -> None:
        key = self._keys.node(self.id)
        facts = ("version", __version__, "host", socket.gethostname(), "pid", os.getpid(), "seenMs", now_ms())
        await self._link.do_all(
            [
                ("HSET", key, *facts),
                ("EXPIRE", key, self._config.ttl_s),
                ("ZADD", self._keys.nodes(), now_ms() + self._config.ttl_s * 1000, self.id),
            ]
        )
        # Not in a full Redis, which renews nobody: the others are alive as well.
        await self._link.do("ZREMRANGEBYSCORE", self._keys.nodes(), "-inf", now_ms() - self._config.ttl_s * 1000)

    async def unregister(self) -> None:
        await self._link.do_all(
            [
                ("UNLINK", self._keys.node(self.id)),
                ("UNLINK", self._keys.loss_counter(self.id)),
                ("ZREM", self._keys.nodes(), self.id),
            ]
        )

    async def run(self) -> None:
        """Renew the registration until cancelled."""
        await periodic.every(lambda: self._config.renew_s, self.register, self._link.outage_log)
