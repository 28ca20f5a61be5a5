"""The end of one day: its stream, what was compacted of it, and every entry that names it.

Each step may be repeated, and the note by which a day is found (`streams_used`) goes last: who is killed in between
leaves a day that the next sweep removes. A session that is opened in it meanwhile comes out on top: it adds an entry
first, which Redis looks for before it removes the stream, and a stream that is there at the end is listed again. So is
one to which a compactor has added a batch meanwhile.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from rta_supervisor.retention import day_index, functions
from rta_supervisor.transport import commands, replies
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, entry_ids, keys

GONE: Final = 1
"""Else the stream got an entry meanwhile, or the lease is over."""


class RemovalTerms(msgspec.Struct, frozen=True):
    """Under which a day may go."""

    before_ms: int
    """Its last entry is older than this."""
    plausible_until_ms: int
    """Or later than this: a writer may give an entry any id, and no clock has come so far."""
    until_ms: int
    """When the lease ends."""


class DayRemover:
    """Removes whole days."""

    def __init__(self, link: Link, names: keys.Keys) -> None:
        self._link = link
        self._keys = names

    async def remove(self, day: day_streams.Day, used_ms: float, terms: RemovalTerms) -> bool:
        """Whether the day is gone. `used_ms`: when it was last used, as it was seen."""
        name = day.stream
        parts = (keys.stream(name), keys.cold_stream(name))
        # Looked at before anything is touched: of a day that is in use nothing goes.
        ends = await self._link.try_all([replies.stream_info_command(key) for key in parts])
        if any(terms.before_ms <= _last_ms(end) < terms.plausible_until_ms for end in ends):
            return False
        for key in parts:
            if await self._link.do(*remove_call(key, terms)) != GONE:
                return False
        await self._link.do("HDEL", self._keys.cold_index(), name)
        if not await self._link.do("FCALL", "rtas_unlist_1", 1, keys.STREAMS, name, terms.until_ms):
            return False
        await self._link.do(*day_index.drop_call(self._keys, day))
        await self._link.do(*functions.remove_if_unchanged(self._keys.streams_used(), [(name, used_ms)]))
        if any(await self._link.do_all([("EXISTS", key) for key in parts])):
            await self._list_again(day)
            return False
        return True

    async def _list_again(self, day: day_streams.Day) -> None:
        await self._link.do_all(
            [
                ("SADD", keys.STREAMS, day.stream),
                ("ZADD", self._keys.streams_used(), "NX", day.start_ms, day.stream),
                day_index.keep_call(self._keys, day.source, [day]),
            ]
        )


def remove_call(key: str, terms: RemovalTerms) -> commands.Command:
    return ("FCALL", "rtas_day_remove_1", 1, key, terms.before_ms, terms.plausible_until_ms, terms.until_ms)


def _last_ms(info: Sequence[bytes] | Exception) -> int:
    return entry_ids.ms_of(replies.last_generated_id(replies.parse_stream_info(info)))
