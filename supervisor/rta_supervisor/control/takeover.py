"""Takes over messages that other supervisors read and did not acknowledge: those of supervisors that are dead, and
those that were not acknowledged for long. Removes dead supervisors from the consumer group once they have none.
"""

from collections.abc import Callable, Sequence
from typing import Final

import redis.exceptions

from rta_supervisor.control import server_functions
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import DataLost
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import keys, redis_errors

CLAIM_MAX: Final = 1000


class Takeover:
    """Claims messages of control streams for one consumer of the group."""

    def __init__(
        self, link: Link, config: settings.Settings, control_streams: Sequence[str], consumer: str, *, kind: str
    ) -> None:
        """`consumer`: the name of this supervisor in the group. `kind`: of the control streams, for the log."""
        self._link = link
        self._keys = config.keys
        self._config = config
        self._control_streams = control_streams
        self._consumer = consumer
        self._lease_s = config.node.lease_s
        self._log = log.get(lane=kind)

    async def claim_idle(self, is_in_hand: Callable[[str, str], bool] = lambda _key, _id: False) -> list[str]:
        """Claim what was not acknowledged for `control.retry_s`, whichever supervisor has read it.

        `is_in_hand`: whether this supervisor has an entry of a control stream in hand. Gives the control streams with
        entries that it has not.
        """
        return [key for key in self._control_streams if await self._claim_idle(key, is_in_hand)]

    async def _claim_idle(self, key: str, is_in_hand: Callable[[str, str], bool]) -> int:
        idle_ms = int(self._config.control.retry_s * 1000)
        start: str | bytes = "0-0"
        count = 0
        while True:
            start, claimed, *_ = await self._link.do(
                *("XAUTOCLAIM", key, keys.CONTROL_GROUP, self._consumer, idle_ms, start),
                *("COUNT", self._config.control.batch, "JUSTID"),
            )
            left = sum(not is_in_hand(key, entry_id.decode()) for entry_id in claimed)
            if left:
                count += left
                counters.counts.redelivered += left
                self._log.info("messages_claimed", stream=key, count=left)
            if start == b"0-0":
                return count

    async def claim_from_dead(self) -> list[str]:
        """Claim what dead supervisors have read and not acknowledged. Gives the control streams where there was any."""
        counts = {key: await self._claim_from_dead(key) for key in self._control_streams}
        if any(counts.values()):
            self._log.info("messages_inherited", count=sum(counts.values()))
        return [key for key, count in counts.items() if count]

    async def _claim_from_dead(self, key: str) -> int:
        try:
            replies = await self._link.do("XINFO", "CONSUMERS", key, keys.CONTROL_GROUP)
        except redis.exceptions.ResponseError as error:
            if not redis_errors.is_no_such_key(error):
                raise
            # We had made the stream, so Redis lost it.
            raise DataLost(f"{key}: {error}") from error
        pending = {fields[b"name"].decode(): fields[b"pending"] for fields in map(pairs_to_dict, replies)}
        pending.pop(self._consumer, None)
        liveness = await self._link.do_all([("EXISTS", self._keys.alive(consumer)) for consumer in pending])
        count = 0
        for (consumer, pending_count), is_alive in zip(pending.items(), liveness, strict=True):
            if not is_alive and pending_count:
                count += await self._claim_all(key, consumer)
            elif not is_alive:
                await self._link.do(*server_functions.remove_consumer(self._keys, key, consumer))
        return count

    async def _claim_all(self, key: str, dead: str) -> int:
        """Claim all messages of a dead consumer, but for those that another supervisor has claimed a moment ago."""
        count = 0
        idle_ms = int(self._lease_s * 1000 / 2)
        start = "-"
        while True:
            rows = await self._link.do("XPENDING", key, keys.CONTROL_GROUP, start, "+", CLAIM_MAX, dead)
            ids = [row[0].decode() for row in rows]
            if not ids:
                return count
            claimed = await self._link.do("XCLAIM", key, keys.CONTROL_GROUP, self._consumer, idle_ms, *ids, "JUSTID")
            count += len(claimed)
            start = f"({ids[-1]}"
