"""Finds sessions in Redis that no supervisor knows of: other producers write their hashes without an index.

Keys are looked through with SCAN, some thousand at a time and again from the beginning after the last one: a session is
found within some seconds in a Redis of usual size, and no call keeps Redis from serving others.
"""

from collections.abc import Container
from typing import Final

import anyio
import redis.exceptions

from rta_supervisor.transport import failures, scanning
from rta_supervisor.transport.link import Link
from rta_wire import keys

SCAN_COUNT: Final = 1000
PAGES_MAX: Final = 50
"""Pages of one look at each server."""

EVERY_S: Final = 2.0
REFUSED_EVERY_S: Final = 300.0
"""How often to try again where the ACL does not allow it."""

IDENTITIES_MAX: Final = 5000


class SessionScan:
    """Identities of session hashes that were seen in the last round through the keys, or in this one."""

    def __init__(self, link: Link, names: keys.Keys, known: Container[str]) -> None:
        """`known`: sessions that need not be found."""
        self._link = link
        self._known = known
        self._before, _, self._after = names.session_template.partition("{identity}")
        self._pattern = names.session("*")
        self._cursors: list[bytes] = []
        self._done: set[int] = set()
        """Servers whose keys were all looked at in this round."""
        self._seen: set[str] = set()
        self._seen_before: set[str] = set()
        self._due_s = 0.0

    async def identities(self) -> set[str]:
        """What was found up to now. Looks further where that is due."""
        now_s = anyio.current_time()
        if now_s >= self._due_s:
            self._due_s = now_s + EVERY_S
            await self._look()
        return {identity for identity in self._seen | self._seen_before if identity not in self._known}

    async def _look(self) -> None:
        senders = await self._link.topology.senders()
        if len(senders) != len(self._cursors):
            self._cursors, self._done, self._seen = [b"0"] * len(senders), set(), set()
        for server, send in enumerate(senders):
            for _ in range(PAGES_MAX):
                if server in self._done:
                    break
                command = ("SCAN", self._cursors[server], "MATCH", self._pattern, "COUNT", SCAN_COUNT, "TYPE", "hash")
                [reply] = await send([command])
                if isinstance(reply, redis.exceptions.NoPermissionError):
                    scanning.note_missing_permission("SCAN")
                    self._due_s = anyio.current_time() + REFUSED_EVERY_S
                    return
                if isinstance(reply, Exception):
                    raise failures.classify(reply)
                self._take(server, *reply)
        if len(self._done) == len(senders):
            self._seen, self._seen_before, self._done = set(), self._seen, set()

    def _take(self, server: int, cursor: bytes, found: list[bytes]) -> None:
        self._cursors[server] = cursor
        if cursor == b"0":
            self._done.add(server)
        for raw in found:
            key = raw.decode(errors="replace")
            identity = key[len(self._before) : len(key) - len(self._after)]
            if identity not in self._known and len(self._seen) < IDENTITIES_MAX:
                self._seen.add(identity)
