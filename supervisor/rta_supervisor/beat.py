"""Notices that Redis lost data: started empty, from an old snapshot, or failed over to a replica that lagged."""

from typing import Final

from rta_supervisor.link import Link, parse_info
from rta_wire import keys

TTL_S: Final = 24 * 3600


class Beat:
    """A counter in Redis that only we raise. What it says must never be less than what it said before."""

    def __init__(self, link: Link, names: keys.Keys, node_id: str) -> None:
        self._link = link
        self._key = names.beat(node_id)
        self._last = 0
        self._server = ""

    async def data_loss(self) -> str | None:
        """Raise the counter. The reason, where what came back can't be.

        A restart within one beat of a snapshot leaves the counter right: that the server is another process is reason
        enough to look.
        """
        count, _, info = await self._link.do_all(
            [("INCR", self._key), ("EXPIRE", self._key, TTL_S), ("INFO", "server")]
        )
        server = parse_info(info).get("run_id", "")
        last, was = self._last, self._server
        self._last, self._server = count, server
        if count <= last:
            return f"the counter stood at {last} and is {count} now"
        if was and server != was:
            return "the server was started again or another one took over"
        return None
