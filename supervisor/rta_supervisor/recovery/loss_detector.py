"""Notices that Redis lost data: started empty, from an old snapshot, or failed over to a replica that lagged."""

from typing import Final

from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import parse_info
from rta_wire import keys

TTL_S: Final = 24 * 3600


class LossDetector:
    """A counter on each server that only we raise. What it says must never be less than what it said before."""

    def __init__(self, link: Link, names: keys.Keys, node_id: str) -> None:
        self._link = link
        self._keys = names
        self._node_id = node_id
        self._last: dict[str, int] = {}
        self._servers: set[str] = set()

    async def find_loss(self) -> str | None:
        """Raise the counters. The reason, where what came back can't be.

        A restart within one beat of a snapshot leaves a counter right: that the server is another process is reason
        enough to look.
        """
        tags = await self._link.topology.tags()
        beats = [
            call
            for tag in tags
            for key in (self._keys.loss_counter(self._node_id, tag),)
            for call in (("INCR", key), ("EXPIRE", key, TTL_S))
        ]
        counts = dict(zip(tags, (await self._link.do_all(beats))[::2], strict=True))
        servers = {parse_info(raw).get("run_id", "") for raw in await self._link.do_on_primaries("INFO", "server")}
        last, self._last = self._last, self._last | counts
        known, self._servers = self._servers, servers
        for tag, count in counts.items():
            if count <= last.get(tag, 0):
                return f"the counter stood at {last[tag]} and is {count} now"
        if known and servers - known:
            return "the server was started again or another one took over"
        return None
