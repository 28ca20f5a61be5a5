"""The registry of running supervisors in Redis: lists them, and keeps this one registered so that clients find it."""

import os
import re
import socket
import uuid
from typing import Final

import msgspec

from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import __version__, day_streams, keys

_RELEASE: Final = re.compile(r"(\d{1,9})\.(\d{1,9})")

LAST_REGISTRATION_TTL_S: Final = 30 * day_streams.DAY_S
"""How long clients wait for a supervisor to come back rather than say at once that there is none."""


class RunningNode(msgspec.Struct, frozen=True):
    """A supervisor as it registered itself."""

    version: str
    host: str
    pid: int
    seen_ms: int
    """When it renewed its registration."""

    def is_older_than(self, release: tuple[int, int]) -> bool:
        """Whether its version is below these first two numbers of one."""
        numbers = _RELEASE.match(self.version)
        return numbers is not None and (int(numbers[1]), int(numbers[2])) < release

    @classmethod
    def parse(cls, fields: dict[bytes, bytes]) -> "RunningNode":
        """A node from its hash in Redis, whose fields may be missing while it is read."""
        return cls(
            version=fields.get(keys.NODE_VERSION, b"").decode(),
            host=fields.get(keys.NODE_HOST, b"").decode(),
            pid=int(fields.get(keys.NODE_PID, 0)),
            seen_ms=int(fields.get(keys.NODE_SEEN_MS, 0)),
        )


async def running_nodes(link: Link, names: keys.Keys) -> dict[str, RunningNode]:
    """Supervisors whose registration has not expired, by their id."""
    ids = [raw.decode() for raw in await link.do("ZRANGE", names.nodes(), 0, -1)]
    replies = await link.do_all([("HGETALL", names.node(node_id)) for node_id in ids])
    return {
        node_id: RunningNode.parse(pairs_to_dict(reply)) for node_id, reply in zip(ids, replies, strict=True) if reply
    }


class Node:
    """This supervisor in the registry. Its id is new at each start."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self.id = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
        self._link = link
        self._keys = config.keys
        self._settings = config
        self._config = config.node
        self._principals = config.control.requesters

    async def register(self) -> None:
        """Register this supervisor or renew its registration, and forget those that have not renewed theirs."""
        key = self._keys.node(self.id)
        fields = (
            *(keys.NODE_VERSION, __version__, keys.NODE_HOST, socket.gethostname()),
            *(keys.NODE_PID, os.getpid(), keys.NODE_SEEN_MS, now_ms()),
            *(keys.NODE_TEMPLATE, self._keys.session_template, keys.NODE_PRINCIPALS, " ".join(self._principals)),
        )
        # One that knows of no archive leaves what others have registered.
        archive = (keys.NODE_ARCHIVE, folder) if (folder := self._settings.archive.folder) else ()
        last = self._keys.last_registration()
        await self._link.do_all(
            [
                ("HSET", key, *fields, *archive),
                ("EXPIRE", key, self._config.ttl_s),
                ("HSET", last, *fields, *archive),
                ("EXPIRE", last, LAST_REGISTRATION_TTL_S),
                ("ZADD", self._keys.nodes(), now_ms() + self._config.ttl_s * 1000, self.id),
            ]
        )
        # Reached only if Redis took the writes above: a full Redis renews nobody, and the others are alive as well.
        await self._link.do("ZREMRANGEBYSCORE", self._keys.nodes(), "-inf", now_ms() - self._config.ttl_s * 1000)

    async def unregister(self) -> None:
        """Remove this supervisor from the registry at once, with its counter of the loss detector."""
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
