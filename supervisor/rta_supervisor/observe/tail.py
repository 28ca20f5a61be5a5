"""Reads the entries of one session from its stream as they are added, live and cold alike: each entry once, and gaps
where entries were trimmed. Waits for new entries, and outlives an outage of Redis.

Positions and gaps are found by `rta_wire.stream.cursor`, and which part holds the next entries by
`rta_wire.stream.live_then_cold`; this module reads from Redis.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.compaction.reader import ColdReader
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, replies
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS, classify
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import errors, keys
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


class SessionTail:
    """Reads the entries of one session from its stream, as they are added."""

    def __init__(self, link: Link, config: settings.Settings, identity: str) -> None:
        self._link = link
        self._keys = config.keys
        self._identity = identity
        self._page = cursor.EMPTY_PAGE
        self._stream_key = ""
        self._cold = ColdReader(link, config.keys, "")
        self.stream_session_id = 0

    async def follow(self, *, from_start: bool) -> AsyncIterator[TailItem]:
        """Yields entries until the session has ended and all of them were read. The caller may stop sooner."""
        stream_cursor = await self._begin(from_start=from_start)
        is_away = is_over = False
        gone_since_s: float | None = None
        while True:
            try:
                # Before the entries: once a session is closed, all of its entries but the last are in the stream.
                state = await self._read_state()
                self._page = await self._read(stream_cursor.position)
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                if not is_away:
                    yield RedisAway(str(error).splitlines()[0])
                is_away = True
                await anyio.sleep(OUTAGE_PAUSE_S)
                continue
            is_away = False
            for item in _step(stream_cursor):
                if not isinstance(item, cursor.StreamEntry) or item.stream_session_id == self.stream_session_id:
                    yield item
            if not self._page.is_complete:
                continue
            if is_over:
                return
            yield CaughtUp()
            is_over = state is not None and state.is_closed
            gone_since_s = None if state is not None else gone_since_s or anyio.current_time()
            if gone_since_s is not None and anyio.current_time() - gone_since_s > GONE_TIMEOUT_S:
                raise errors.NoSuchSession(identity=self._identity, nearest=": it expired or Redis lost it")
            await self._wait(stream_cursor.position)

    async def _begin(self, *, from_start: bool) -> cursor.StreamCursor:
        """Finds the session's stream. Returns a cursor at the session's first entry or at the end of the stream."""
        fields = pairs_to_dict(await self._link.do("HGETALL", self._keys.session(self._identity)))
        if not fields:
            raise errors.NoSuchSession(identity=self._identity, nearest="")
        stream = fields[keys.STREAM_NAME.encode()].decode()
        self.stream_session_id = int(fields[keys.STREAM_SESSION_ID.encode()])
        self._stream_key = keys.stream(stream)
        self._cold = ColdReader(self._link, self._keys, stream)
        if from_start:
            after = fields[keys.STREAM_POSITION.encode()].decode()
        else:
            after = replies.last_generated_id(await replies.read_stream_info(self._link, keys.stream(stream)))
        return cursor.StreamCursor(lambda _: self._page, after)

    async def _read(self, after: str) -> cursor.StreamPage:
        """The next entries, live or cold. The live stream is read first, as `live_then_cold` demands."""
        live = await self._read_live(after)
        return await self._cold.next_page(live, after)

    async def _read_live(self, after: str) -> cursor.StreamPage:
        """Live entries and counters from one moment: read again where the stream changed in between."""
        get_info = replies.stream_info_command(self._stream_key)
        get_entries: commands.Command = ("XRANGE", self._stream_key, f"({after}", "+", "COUNT", READ_ENTRIES)
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

    async def _read_state(self) -> State | None:
        raw = await self._link.do("HGET", self._keys.session_state(self._identity), keys.STATE)
        return None if raw is None else State(raw.decode())

    async def _wait(self, after: str) -> None:
        """Waits for a new entry, but not long: a stream that was made again with lower ids wakes no XREAD."""
        try:
            await self._link.do("XREAD", "COUNT", 1, "BLOCK", BLOCK_MS, "STREAMS", self._stream_key, after)
        except (*OUTAGE_ERRORS, *REFUSAL_ERRORS):
            await anyio.sleep(OUTAGE_PAUSE_S)


def _step(stream_cursor: cursor.StreamCursor) -> list[cursor.StreamEntry | cursor.Gap | errors.BadBurst]:
    """Entries and gaps of one step. A bad entry ends it with its error: entries behind it are read in the next step."""
    items: list[cursor.StreamEntry | cursor.Gap | errors.BadBurst] = []
    try:
        items.extend(stream_cursor.step())
    except errors.BadBurst as error:
        items.append(error)
    return items


def _decode_names(fields: Mapping[bytes, Any]) -> Mapping[str, Any]:
    return {name.decode(): value for name, value in fields.items()}
