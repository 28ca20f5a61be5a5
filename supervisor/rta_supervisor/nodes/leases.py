"""Leases: duties that one supervisor does at a time, and the key that shows others that this supervisor is alive.

A lease ends by the clock of Redis. Commands that could do harm after its end carry that end, and Redis refuses them
afterwards: a supervisor that was suspended and goes on learns it from Redis, not from its own clock.
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
"""How often within the length of a lease it is renewed, and other supervisors are looked at."""

DUTIES: Final = ("trim", "watchdog", "idle_refresh", "compact", "sweep")
"""Duties that one supervisor does at a time: parts of keys in Redis."""


class LeaseExpired(Exception):
    """The lease under which a command was sent is over."""


class Lease:
    """The lease of one duty, as this supervisor knows it."""

    def __init__(self, duty: str) -> None:
        self.duty = duty
        self._until_ms = 0
        self._ends_s = 0.0
        self._won = anyio.Event()

    @property
    def is_ours(self) -> bool:
        """Whether this supervisor has the lease, by its own clock."""
        return anyio.current_time() < self._ends_s

    def note(self, until_ms: int, ends_s: float) -> bool:
        """Note the reply of Redis. Gives whether the lease was won or lost by it.

        `until_ms`: the end of our lease by the server's clock, 0 if another supervisor has it. `ends_s`: by ours.
        """
        was_ours = self._until_ms > 0
        self._until_ms, self._ends_s = until_ms, ends_s if until_ms else 0.0
        if until_ms and not was_ours:
            self._won.set()
        return bool(until_ms) is not was_ours

    async def next_turn(self, every_s: float) -> int | None:
        """Wait for `every_s`, or until the lease is won. Gives its end by the server's clock in ms, or None."""
        with anyio.move_on_after(every_s):
            await self._won.wait()
        self._won = anyio.Event()
        return self._until_ms if self.is_ours else None


class Leases:
    """The leases of one supervisor, with the key that shows that it is alive."""

    def __init__(self, link: Link, config: settings.Settings, node_id: str, duties: Iterable[str] = DUTIES) -> None:
        self._link = link
        self._keys = config.keys
        self._node_id = node_id
        self._ttl_s = config.node.lease_s
        self._duties = {duty: Lease(duty) for duty in duties}
        self._log = log.get(node=node_id)

    def of(self, duty: str) -> Lease:
        """The lease of a duty."""
        return self._duties[duty]

    async def renew(self) -> None:
        """Renew our leases and the key that shows that we are alive, and take leases that nobody has."""
        ttl_ms = int(self._ttl_s * 1000)
        # From before the request on: a lease ends here before it ends in Redis.
        ends_s = anyio.current_time() + self._ttl_s
        _, *replies = await self._link.do_all(
            [
                take_lease(key, self._node_id, ttl_ms=ttl_ms)
                for key in (self._keys.alive(self._node_id), *map(self._keys.lease, self._duties))
            ]
        )
        for lease, until_ms in zip(self._duties.values(), replies, strict=True):
            if not lease.note(until_ms, ends_s):
                continue
            if until_ms:
                self._log.info("lease_won", duty=lease.duty)
            else:
                self._log.info("lease_lost", duty=lease.duty)

    async def release(self) -> None:
        """Give up all leases at once, so that others need not wait for their end."""
        await self._link.do_all(
            [
                release_lease(key, self._node_id)
                for key in (self._keys.alive(self._node_id), *map(self._keys.lease, self._duties))
            ]
        )

    async def run(self) -> None:
        """Renew all leases until cancelled."""
        await periodic.every(lambda: self._ttl_s / LOOKS_PER_LEASE, self.renew, self._link.outage_log)


def take_lease(key: str, owner: str, *, ttl_ms: int) -> commands.Command:
    """Take or renew a lease. Gives its end by the server's clock in ms, 0 if another owner has it."""
    return ("FCALL", "rtas_take_1", 1, key, owner, ttl_ms)


def release_lease(key: str, owner: str) -> commands.Command:
    """Give up a lease. Gives 1 if the owner had it."""
    return ("FCALL", "rtas_release_1", 1, key, owner)
