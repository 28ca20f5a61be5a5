"""Removes one idle stream: its entries, what was compacted of it, and every entry in Redis that names it.

The order of the steps makes a session that is opened meanwhile win: opening adds an entry to the stream first and lists
the stream afterwards. A whole day of a source is removed by `day_removal`.
"""

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import server_functions
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys


class StreamRemover:
    """Removes idle streams."""

    def __init__(self, link: Link, names: keys.Keys) -> None:
        self._link = link
        self._keys = names
        self._log = log.get(duty="trim")

    async def remove(self, stream: str, limits: settings.TrimLimits, last_use_ms: float, until_ms: int) -> bool:
        """Whether the stream is gone. `last_use_ms`: when it was last used, as the caller has read it."""
        if not await self._link.do(*server_functions.unlist_stream(stream, until_ms=until_ms)):
            return False
        last_entry_ms = await self._remove_entries(stream, limits)
        if not last_entry_ms:
            await self._link.do(
                *server_functions.remove_if_unchanged(self._keys.streams_used(), [(stream, last_use_ms)])
            )
            if not any([await self._link.do("EXISTS", key) for key in (keys.stream(stream), keys.cold_stream(stream))]):
                counters.counts.streams_removed += 1
                self._log.info("stream_removed", stream=stream)
                return True
        await self._link.do_all(
            [
                ("SADD", keys.STREAMS, stream),
                ("ZADD", self._keys.streams_used(), "GT", last_entry_ms or now_ms(), stream),
            ]
        )
        return False

    async def _remove_entries(self, stream: str, limits: settings.TrimLimits) -> int:
        """0 if the live and the cold stream are gone, else the time in ms of the entry that keeps one of them.

        The entry in the cold index goes last: batches that it names are looked for again after a death in between.
        """
        for key in (keys.stream(stream), keys.cold_stream(stream)):
            if last_entry_ms := await self._link.do(*server_functions.remove_if_idle(key, limits)):
                return int(last_entry_ms)
        await self._link.do("HDEL", self._keys.cold_index(), stream)
        return 0
