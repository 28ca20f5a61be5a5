"""Reads entries as they are added, of one session or of all sessions of a source over its days, live and cold alike:
each entry once, and gaps where entries were trimmed. Waits for new entries, and outlives an outage of Redis.

Positions and gaps are found by `rta_wire.stream.cursor`, and which part holds the next entries by
`rta_wire.stream.live_then_cold`; this module reads from Redis.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.compaction.reader import ColdReader
from rta_supervisor.observe.queries import RedisQueries
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


class StreamFollower:
    """One stream: a cursor, and the page after it. The live stream is read first, as `live_then_cold` demands."""

    def __init__(self, link: Link, names: keys.Keys, stream: str, after: str = entry_ids.MIN) -> None:
        self.stream = stream
        self.page = cursor.EMPTY_PAGE
        self._link = link
        self._key = keys.stream(stream)
        self._cold = ColdReader(link, names, stream)
        self._cursor = cursor.StreamCursor(lambda _: self.page, after)

    async def read(self) -> None:
        """Reads the next entries, live or cold."""
        after = self._cursor.position
        self.page = await self._cold.next_page(await self._read_live(after), after)

    def take(self) -> list[cursor.StreamEntry | cursor.Gap | errors.BadBurst]:
        """Entries and gaps of the page. A bad entry ends them with its error: what is behind it is read again."""
        items: list[cursor.StreamEntry | cursor.Gap | errors.BadBurst] = []
        try:
            items.extend(self._cursor.step())
        except errors.BadBurst as error:
            items.append(error)
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
        get_entries: commands.Command = ("XRANGE", self._key, f"({after}", "+", "COUNT", READ_ENTRIES)
        while True:
            info_before, entries, info = await self._link.try_all([get_info, get_entries, get_info])
            fields = replies.parse_stream_info(info)
            if fields is None:
                return cursor.EMPTY_PAGE
            if isinstance(entries, redis.exceptions.ResponseError):
                raise classify(entries)
            if info == info_before:
                parsed = [(entry_id, pairs_to_dict(flat)) for entry_id, flat in entries]
                return cursor.parse_page(_decode_names(fields), parsed, asked=READ_ENTRIES)


class SessionTail:
    """Reads the entries of one session from its stream, as they are added."""

    def __init__(self, link: Link, config: settings.Settings, identity: str) -> None:
        self._link = link
        self._keys = config.keys
        self._identity = identity
        self.stream_session_id = 0

    async def follow(self, *, from_start: bool) -> AsyncIterator[TailItem]:
        """Yields entries until the session has ended and all of them were read. The caller may stop sooner."""
        follower = await self._begin(from_start=from_start)
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

    async def _begin(self, *, from_start: bool) -> StreamFollower:
        """Finds the session's stream. It is followed from the session's first entry or from its end."""
        fields = pairs_to_dict(await self._link.do("HGETALL", self._keys.session(self._identity)))
        if not fields:
            raise errors.NoSuchSession(identity=self._identity, nearest="")
        stream = fields[keys.STREAM_NAME.encode()].decode()
        self.stream_session_id = int(fields[keys.STREAM_SESSION_ID.encode()])
        after = fields[keys.STREAM_POSITION.encode()].decode() if from_start else await _last_id(self._link, stream)
        return StreamFollower(self._link, self._keys, stream, after)

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

    async def follow(self, *, from_start: bool) -> AsyncIterator[tuple[str, TailItem]]:
        """Yields entries and gaps with the name of their stream, without end. The caller stops."""
        if not from_start:
            for stream in await self._queries.streams_of(self._source):
                after = await _last_id(self._link, stream)
                self._followers[stream] = StreamFollower(self._link, self._keys, stream, after)
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


def _decode_names(fields: Mapping[bytes, Any]) -> Mapping[str, Any]:
    return {name.decode(): value for name, value in fields.items()}
