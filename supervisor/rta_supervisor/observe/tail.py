"""Reads entries as they are added, of one session or of all sessions of a source over its days, live and cold alike:
each entry once, and gaps where entries were trimmed. Waits for new entries, and outlives an outage of Redis.

Positions and gaps are found by `rta_wire.stream.cursor`, and which part holds the next entries by
`rta_wire.stream.live_then_cold`; this module reads from Redis.
"""

from collections.abc import AsyncIterator
from typing import Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.compaction.reader import ColdReader
from rta_supervisor.observe import tail_start
from rta_supervisor.observe.queries import RedisQueries
from rta_supervisor.observe.tail_start import TailStart
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, replies
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS, classify
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import entry_ids, errors, keys
from rta_wire.session import State
from rta_wire.stream import cursor

READ_ENTRIES: Final = 100
BLOCK_MS: Final = 1000
OUTAGE_PAUSE_S: Final = 0.2
GONE_TIMEOUT_S: Final = 30.0
"""How long a session may be missing in Redis: a supervisor restores one that Redis lost."""


class RedisAway(msgspec.Struct, frozen=True):
    """Redis does not answer. Yielded once for each outage."""

    reason: str


class CaughtUp(msgspec.Struct, frozen=True):
    """All entries that the stream has at this moment have been read."""


TailItem = cursor.StreamEntry | cursor.Gap | errors.BadBurst | RedisAway | CaughtUp


class _PageSlot:
    """The page that a follower read last. Apart from it, so that a follower is freed with its last user: a cycle, with
    megabytes of entries in it, would wait for the collector."""

    __slots__ = ("page",)

    def __init__(self) -> None:
        self.page = cursor.EMPTY_PAGE

    def get(self, _: str) -> cursor.StreamPage:
        return self.page


class StreamFollower:
    """One stream: a cursor, and the page after it. The live stream is read first, as `live_then_cold` demands."""

    def __init__(
        self,
        link: Link,
        names: keys.Keys,
        stream: str,
        after: str = entry_ids.MIN,
        *,
        added: int | None = None,
        is_first_kept: bool = False,
        page_entries: int = READ_ENTRIES,
    ) -> None:
        """`added`: how many entries were ever added up to `after`, where that is known. `is_first_kept`: what was
        trimmed before the first entry is not missed."""
        self.stream = stream
        self._slot = _PageSlot()
        self._is_first_kept = is_first_kept
        self._page_entries = page_entries
        self._link = link
        self._key = keys.stream(stream)
        self._cold = ColdReader(link, names, stream)
        self._cursor = cursor.StreamCursor(self._slot.get, after, added)

    @property
    def page(self) -> cursor.StreamPage:
        """What was read last."""
        return self._slot.page

    @property
    def position(self) -> str:
        """The id of the last entry that was taken."""
        return self._cursor.position

    @property
    def added(self) -> int | None:
        """How many entries were ever added up to the position; None where that is not known."""
        return self._cursor.added

    async def read(self) -> None:
        """Reads the next entries, live or cold."""
        after = self._cursor.position
        self._slot.page = await self._cold.next_page(await self._read_live(after), after)

    def take(self) -> list[cursor.StreamEntry | cursor.Gap | errors.BadBurst]:
        """Entries and gaps of the page. A bad entry ends them with its error: what is behind it is read again."""
        items: list[cursor.StreamEntry | cursor.Gap | errors.BadBurst] = []
        try:
            items.extend(self._cursor.step())
        except errors.BadBurst as error:
            items.append(error)
        if self._is_first_kept and items:
            self._is_first_kept = False
            return [item for item in items if not isinstance(item, cursor.Gap)]
        return items

    async def wait(self) -> None:
        """Waits for a new entry, but not long: a stream that was made again with lower ids wakes no XREAD."""
        position = self._cursor.position
        try:
            await self._link.do("XREAD", "COUNT", 1, "BLOCK", BLOCK_MS, "STREAMS", self._key, position)
        except (*OUTAGE_ERRORS, *REFUSAL_ERRORS):
            await anyio.sleep(OUTAGE_PAUSE_S)

    async def _read_live(self, after: str) -> cursor.StreamPage:
        """Live entries and counters from one moment: read again where the stream changed in between."""
        get_info = replies.stream_info_command(self._key)
        get_entries: commands.Command = ("XRANGE", self._key, f"({after}", "+", "COUNT", self._page_entries)
        while True:
            info_before, entries, info = await self._link.try_all([get_info, get_entries, get_info])
            fields = replies.parse_stream_info(info)
            if fields is None:
                return cursor.EMPTY_PAGE
            if isinstance(entries, redis.exceptions.ResponseError):
                raise classify(entries)
            if info == info_before:
                parsed = [(entry_id, pairs_to_dict(flat)) for entry_id, flat in entries]
                return cursor.parse_page(replies.text_names(fields), parsed, asked=self._page_entries)


class SessionTail:
    """Reads the entries of one session from its stream, as they are added."""

    def __init__(self, link: Link, config: settings.Settings, identity: str) -> None:
        self._link = link
        self._keys = config.keys
        self._identity = identity
        self.stream_session_id = 0

    async def follow(self, start: TailStart) -> AsyncIterator[TailItem]:
        """Yields entries until the session has ended and all of them were read. The caller may stop sooner."""
        follower = await self._begin(start)
        is_away = is_over = False
        gone_since_s: float | None = None
        while True:
            try:
                # Before the entries: once a session is closed, all of its entries but the last are in the stream.
                state = await self._read_state()
                await follower.read()
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                if not is_away:
                    yield RedisAway(str(error).splitlines()[0])
                is_away = True
                await anyio.sleep(OUTAGE_PAUSE_S)
                continue
            is_away = False
            for item in follower.take():
                if not isinstance(item, cursor.StreamEntry) or item.stream_session_id == self.stream_session_id:
                    yield item
            if not follower.page.is_complete:
                continue
            if is_over:
                return
            yield CaughtUp()
            is_over = state is not None and state.is_closed
            gone_since_s = None if state is not None else gone_since_s or anyio.current_time()
            if gone_since_s is not None and anyio.current_time() - gone_since_s > GONE_TIMEOUT_S:
                raise errors.NoSuchSession(identity=self._identity, nearest=": it expired or Redis lost it")
            await follower.wait()

    async def _begin(self, start: TailStart) -> StreamFollower:
        """Finds the session's stream, and where in it to begin: not before the session's first entry."""
        fields = pairs_to_dict(await self._link.do("HGETALL", self._keys.session(self._identity)))
        if not fields:
            raise errors.NoSuchSession(identity=self._identity, nearest="")
        stream = fields[keys.STREAM_NAME.encode()].decode()
        self.stream_session_id = int(fields[keys.STREAM_SESSION_ID.encode()])
        first = fields[keys.STREAM_POSITION.encode()].decode()
        after = await _last_id(self._link, stream)
        if start.is_from_start:
            after = first
        elif start.since_ms is not None:
            after = max(first, tail_start.position_since(start.since_ms, after), key=entry_ids.parse)
        elif start.last_entries:
            ids = await tail_start.newest_ids(
                *(self._link, self._keys, stream, start.last_entries), after=first, session=self.stream_session_id
            )
            after = entry_ids.previous_id(ids[-1]) if ids else after
        return StreamFollower(self._link, self._keys, stream, after, is_first_kept=bool(start.last_entries))

    async def _read_state(self) -> State | None:
        raw = await self._link.do("HGET", self._keys.session_state(self._identity), keys.STATE)
        return None if raw is None else State(raw.decode())


class SourceTail:
    """Reads the entries of all sessions of a source as they are added: of the stream of its name and of all its days,
    the oldest first. A day that begins meanwhile is read from its start, and one that was removed is left."""

    def __init__(self, link: Link, config: settings.Settings, source: str) -> None:
        self._link = link
        self._keys = config.keys
        self._source = source
        self._queries = RedisQueries(link, config)
        self._followers: dict[str, StreamFollower] = {}

    async def follow(self, start: TailStart) -> AsyncIterator[tuple[str, TailItem]]:
        """Yields entries and gaps with the name of their stream, without end. The caller stops."""
        if not start.is_from_start:
            await self._begin(start)
        is_away = False
        while True:
            try:
                async for item in self._read_all():
                    yield item
                is_away = False
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                if not is_away:
                    yield "", RedisAway(str(error).splitlines()[0])
                is_away = True
                await anyio.sleep(OUTAGE_PAUSE_S)
                continue
            yield "", CaughtUp()
            # Only the newest day is waited for: streams of a Cluster can't be waited for together.
            newest = next(reversed(self._followers.values()), None)
            await (anyio.sleep(BLOCK_MS / 1000) if newest is None else newest.wait())

    async def _begin(self, start: TailStart) -> None:
        """Finds where to begin in each stream."""
        streams = await self._queries.streams_of(self._source)
        oldest: dict[str, str] = {}
        if start.last_entries:
            oldest = await tail_start.oldest_of_newest(self._link, self._keys, streams, start.last_entries)
        for stream in streams:
            after = await _last_id(self._link, stream)
            if start.since_ms is not None:
                after = tail_start.position_since(start.since_ms, after)
            elif stream in oldest:
                after = entry_ids.previous_id(oldest[stream])
            self._followers[stream] = StreamFollower(
                self._link, self._keys, stream, after, is_first_kept=stream in oldest
            )

    async def _read_all(self) -> AsyncIterator[tuple[str, TailItem]]:
        """What is new in each stream, up to its end."""
        self._followers = {
            stream: self._followers.get(stream) or StreamFollower(self._link, self._keys, stream)
            for stream in await self._queries.streams_of(self._source)
        }
        for stream, follower in list(self._followers.items()):
            while True:
                await follower.read()
                if follower.page is cursor.EMPTY_PAGE and len(self._followers) > 1:
                    # A day, or the stream from before there were days, was removed or has no entry yet.
                    self._followers[stream] = StreamFollower(self._link, self._keys, stream)
                    break
                for item in follower.take():
                    yield stream, item
                if follower.page.is_complete:
                    break


async def _last_id(link: Link, stream: str) -> str:
    return replies.last_generated_id(await replies.read_stream_info(link, keys.stream(stream)))
