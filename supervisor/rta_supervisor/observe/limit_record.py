"""The record in Redis of limits that principals reached, for the doctor: all supervisors add to it."""

from typing import Final

import msgspec

from rta_supervisor.diagnostics import counters
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import day_streams, keys

EVERY_S: Final = 1.0
TTL_S: Final = day_streams.DAY_S
TIMES: Final = "times"
LAST_MS: Final = "lastMs"


class ReachedLimit(msgspec.Struct, frozen=True):
    """A limit of section `[limits]` that held back a principal."""

    principal: str
    limit: str
    times: int
    last_ms: int


class LimitRecorder:
    """Adds what this supervisor counted to the record."""

    def __init__(self, link: Link, names: keys.Keys, counts: counters.Counts, clock: Clock = now_ms) -> None:
        self._link = link
        self._keys = names
        self._counts = counts
        self._clock = clock
        self._recorded: dict[tuple[str, str], int] = {}

    async def run(self) -> None:
        """Add what is new until cancelled."""
        await periodic.every(lambda: EVERY_S, self.flush, self._link.outage_log)

    async def flush(self) -> None:
        """Add what was counted since the last time."""
        reached = dict(self._counts.limits_reached)
        grown = {pair: count - self._recorded.get(pair, 0) for pair, count in reached.items()}
        key = self._keys.limits_reached()
        commands = [
            command
            for (principal, limit), count in grown.items()
            if count
            for command in (
                ("HINCRBY", key, f"{principal} {limit} {TIMES}", count),
                ("HSET", key, f"{principal} {limit} {LAST_MS}", self._clock()),
            )
        ]
        if commands:
            await self._link.do_all([*commands, ("EXPIRE", key, TTL_S)])
            self._recorded = reached


async def read_reached(link: Link, names: keys.Keys) -> list[ReachedLimit]:
    """The limits that were reached within the last day, the latest first."""
    values: dict[tuple[str, str], dict[str, int]] = {}
    for field, value in pairs_to_dict(await link.do("HGETALL", names.limits_reached())).items():
        principal, limit, name = field.decode().split(" ")
        values.setdefault((principal, limit), {})[name] = int(value)
    reached = [
        ReachedLimit(principal, limit, row.get(TIMES, 0), row.get(LAST_MS, 0))
        for (principal, limit), row in values.items()
    ]
    return sorted(reached, key=lambda row: row.last_ms, reverse=True)
