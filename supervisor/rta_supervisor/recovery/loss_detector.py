"""Detects that Redis lost data: it started empty or from an old snapshot, or failed over to a replica that lagged."""

from typing import Final

from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import parse_info
from rta_wire import keys

TTL_S: Final = 24 * 3600


class LossDetector:
    """Raises a counter of its own on each server. A counter that is not higher than before means that data is lost."""

    def __init__(self, link: Link, names: keys.Keys, node_id: str) -> None:
        self._link = link
        self._keys = names
        self._node_id = node_id
        self._counts: dict[str, int] = {}
        self._run_ids: set[str] = set()

    async def find_loss(self) -> str | None:
        """Raise the counters. Gives the reason where data may be lost.

        A server that restarts from a snapshot of a moment ago has the right count, and may still have lost data: that
        it is another process is reason enough.
        """
        tags = await self._link.topology.find_primary_tags()
        calls = [
            call
            for tag in tags
            for key in (self._keys.loss_counter(self._node_id, tag),)
            for call in (("INCR", key), ("EXPIRE", key, TTL_S))
        ]
        counts = dict(zip(tags, (await self._link.do_all(calls))[::2], strict=True))
        run_ids = {parse_info(raw).get("run_id", "") for raw in await self._link.do_on_primaries("INFO", "server")}
        previous_counts, self._counts = self._counts, self._counts | counts
        previous_run_ids, self._run_ids = self._run_ids, run_ids
        for tag, count in counts.items():
            if count <= previous_counts.get(tag, 0):
                return f"the counter stood at {previous_counts[tag]} and is {count} now"
        if previous_run_ids and run_ids - previous_run_ids:
            return "the server was started again or another one took over"
        return None
