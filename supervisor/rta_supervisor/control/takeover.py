"""Takes over messages that other supervisors read and did not acknowledge: those of supervisors that are dead, and
those that were not acknowledged for long. Removes dead supervisors from the consumer group once they have none.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from rta_supervisor.control import server_functions
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.failures import DataLost, classify
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
        starts: dict[str, str | bytes] = dict.fromkeys(self._control_streams, "0-0")
        counts: Counter[str] = Counter()
        while starts:
            # All control streams in one round trip: nothing is read meanwhile, and principals may be many.
            replies = await self._link.do_all([self._claim_idle_command(key, start) for key, start in starts.items()])
            starts_before, starts = starts, {}
            for key, (start, claimed, *_) in zip(starts_before, replies, strict=True):
                counts[key] += sum(not is_in_hand(key, entry_id.decode()) for entry_id in claimed)
                if start != b"0-0":
                    starts[key] = start
        for key, count in counts.items():
            if count:
                counters.counts.redelivered += count
                self._log.info("messages_claimed", stream=key, count=count)
        return [key for key, count in counts.items() if count]

    def _claim_idle_command(self, key: str, start: str | bytes) -> commands.Command:
        idle_ms = int(self._config.control.retry_s * 1000)
        count = self._config.control.batch
        return ("XAUTOCLAIM", key, keys.CONTROL_GROUP, self._consumer, idle_ms, start, "COUNT", count, "JUSTID")

    async def claim_from_dead(self) -> list[str]:
        """Claim what dead supervisors have read and not acknowledged. Gives the control streams where there was any."""
        pending = await self._pending_of_others()
        consumers = sorted({consumer for counts in pending.values() for consumer in counts})
        liveness = await self._link.do_all([("EXISTS", self._keys.alive(consumer)) for consumer in consumers])
        dead = {consumer for consumer, is_alive in zip(consumers, liveness, strict=True) if not is_alive}
        claimed: Counter[str] = Counter()
        for key, counts in pending.items():
            for consumer in sorted(dead & counts.keys()):
                if counts[consumer]:
                    claimed[key] += await self._claim_all(key, consumer)
                else:
                    await self._link.do(*server_functions.remove_consumer(self._keys, key, consumer))
        if claimed.total():
            self._log.info("messages_inherited", count=claimed.total())
        return [key for key, count in claimed.items() if count]

    async def _pending_of_others(self) -> dict[str, dict[str, int]]:
        """How many messages each other consumer of each control stream has read and not acknowledged."""
        replies = await self._link.try_all(
            [("XINFO", "CONSUMERS", key, keys.CONTROL_GROUP) for key in self._control_streams]
        )
        pending: dict[str, dict[str, int]] = {}
        for key, reply in zip(self._control_streams, replies, strict=True):
            if isinstance(reply, Exception):
                if not redis_errors.is_no_such_key(reply):
                    raise classify(reply)
                # We had made the stream, so Redis lost it.
                raise DataLost(f"{key}: {reply}") from reply
            consumers = map(pairs_to_dict, reply)
            pending[key] = {fields[b"name"].decode(): int(fields[b"pending"]) for fields in consumers}
            pending[key].pop(self._consumer, None)
        return pending

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
