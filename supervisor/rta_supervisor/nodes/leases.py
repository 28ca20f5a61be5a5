"""Who does what: duties that one supervisor does at a time, and the sign of life by which others leave us our messages.

A lease ends by the clock of Redis. What is done under it and could do harm later carries that end, and Redis refuses it
afterwards: a supervisor that stood still and wakes up finds out from Redis, not from its own clock.
"""

from collections.abc import Iterable
from typing import Final

import anyio

from rta_supervisor.diagnostics import log
from rta_supervisor.nodes import periodic
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link

LOOKS_PER_LEASE: Final = 10
DUTIES: Final = ("trim", "watchdog", "idle_refresh", "compact")


class LeaseExpired(Exception):
    """The lease under which this was to be done is over."""


class Lease:
    """One duty."""

    def __init__(self, duty: str) -> None:
        self.duty = duty
        self._until_ms = 0
        self._ends_s = 0.0
        self._won = anyio.Event()

    @property
    def is_ours(self) -> bool:
        return anyio.current_time() < self._ends_s

    def note(self, until_ms: int, ends_s: float) -> bool:
        """What Redis said: until when it is ours, 0 if it is not. Whether that is news."""
        was_ours = self._until_ms > 0
        self._until_ms, self._ends_s = until_ms, ends_s if until_ms else 0.0
        if until_ms and not was_ours:
            self._won.set()
        return bool(until_ms) is not was_ours

    async def next(self, every_s: float) -> int | None:
        """At the usual time, and at once where another supervisor has just left the duty to us."""
        with anyio.move_on_after(every_s):
            await self._won.wait()
        self._won = anyio.Event()
        return self._until_ms if self.is_ours else None


class Leases:
    """All duties of one supervisor."""

    def __init__(self, link: Link, config: settings.Settings, node_id: str, duties: Iterable[str] = DUTIES) -> None:
        self._link = link
        self._keys = config.keys
        self._node_id = node_id
        self._ttl_s = config.node.lease_s
        self._duties = {duty: Lease(duty) for duty in duties}
        self._log = log.get(node=node_id)

    def of(self, duty: str) -> Lease:
        return self._duties[duty]

    async def renew(self) -> None:
        """Say that we live, keep what is ours and take what is nobody's."""
        ttl_ms = int(self._ttl_s * 1000)
        # Counted from before we asked: what we take for ours is ours in Redis too.
        ends_s = anyio.current_time() + self._ttl_s
        _, *answers = await self._link.do_all(
            [
                take_lease(key, self._node_id, ttl_ms=ttl_ms)
                for key in (self._keys.alive(self._node_id), *map(self._keys.lease, self._duties))
            ]
        )
        for lease, until_ms in zip(self._duties.values(), answers, strict=True):
            if not lease.note(until_ms, ends_s):
                continue
            if until_ms:
                self._log.info("lease_won", duty=lease.duty)
            else:
                self._log.info("lease_lost", duty=lease.duty)

    async def release(self) -> None:
        """Leave everything to others at once."""
        await self._link.do_all(
            [
                release_lease(key, self._node_id)
                for key in (self._keys.alive(self._node_id), *map(self._keys.lease, self._duties))
            ]
        )

    async def run(self) -> None:
        """Renew until cancelled."""
        await periodic.every(lambda: self._ttl_s / LOOKS_PER_LEASE, self.renew, self._link.outage_log)


def take_lease(key: str, owner: str, *, ttl_ms: int) -> commands.Command:
    return ("FCALL", "rtas_take_1", 1, key, owner, ttl_ms)


def release_lease(key: str, owner: str) -> commands.Command:
    return ("FCALL", "rtas_release_1", 1, key, owner)
