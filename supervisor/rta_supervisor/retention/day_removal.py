"""Removes one day of a source: its stream, what was compacted of it, and every entry in Redis that names it.

Each step may be repeated, and the entry by which a sweep finds the day (`streams_used`) goes last: a supervisor that is
killed in between leaves a day that the next sweep removes. A session that is opened in the day meanwhile wins: opening
adds an entry to the stream first, which the server function looks for before it removes the stream, and a stream that
exists at the end is listed again. The same holds for a batch that a compactor adds meanwhile.
"""

from typing import Final

from rta_supervisor.retention import server_functions
from rta_supervisor.retention.day_sweep_rules import DayCutoff
from rta_supervisor.transport import replies
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, entry_ids, keys

GONE: Final = 1
"""The reply of a removal after which the stream is gone. Else it got an entry meanwhile, or the lease is over."""


class DayRemover:
    """Removes whole days."""

    def __init__(self, link: Link, names: keys.Keys) -> None:
        self._link = link
        self._keys = names

    async def remove(self, day: day_streams.Day, last_use_ms: float, cutoff: DayCutoff, until_ms: int) -> bool:
        """Whether the day is gone. `last_use_ms`: when it was last used, as the caller has read it."""
        stream_keys = (keys.stream(day.stream), keys.cold_stream(day.stream))
        # Both are read before anything is removed: a day that is in use stays whole.
        info_replies = await self._link.try_all([replies.stream_info_command(key) for key in stream_keys])
        last_ids = [replies.last_generated_id(replies.parse_stream_info(reply)) for reply in info_replies]
        if any(cutoff.keeps(entry_ids.ms_of(last_id)) for last_id in last_ids):
            return False
        for key in stream_keys:
            if await self._link.do(*server_functions.remove_if_old(key, cutoff, until_ms=until_ms)) != GONE:
                return False
        await self._link.do("HDEL", self._keys.cold_index(), day.stream)
        if not await self._link.do(*server_functions.unlist_stream(day.stream, until_ms=until_ms)):
            return False
        await self._link.do(*server_functions.drop_day(self._keys, day))
        await self._link.do(
            *server_functions.remove_if_unchanged(self._keys.streams_used(), [(day.stream, last_use_ms)])
        )
        if any(await self._link.do_all([("EXISTS", key) for key in stream_keys])):
            await self._list_again(day)
            return False
        return True

    async def _list_again(self, day: day_streams.Day) -> None:
        await self._link.do_all(
            [
                ("SADD", keys.STREAMS, day.stream),
                ("ZADD", self._keys.streams_used(), "NX", day.start_ms, day.stream),
                server_functions.keep_days(self._keys, day.source, [day]),
            ]
        )
