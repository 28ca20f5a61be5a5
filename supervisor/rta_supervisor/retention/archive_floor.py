"""What trimming leaves for the archive: entries of sessions that it does not have yet, up to a bound of memory.

Holds nothing that another supervisor would have to know: which sessions wait stands in Redis. A session is listed as
waiting before it leaves the index of live ones, so whoever reads the index first and the list second misses none.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import functions, session_index
from rta_supervisor.retention.archive_queue import UnarchivedSession
from rta_supervisor.settings import settings
from rta_supervisor.transport import paging
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import entry_ids, keys

READ_MAX_SESSIONS: Final = 1000
LOGGED_SESSIONS_MAX: Final = 10


class ArchiveFloor(msgspec.Struct, frozen=True):
    """What is kept of one stream."""

    position: str
    """Entries after this one stay."""
    sessions: tuple[UnarchivedSession, ...]


class ArchiveFloors:
    """Reads the floors of all streams for a sweep, and says when a stream has grown too large to wait."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config
        self._alarmed: set[str] = set()
        self._log = log.get(duty="trim")

    async def read(self) -> dict[str, ArchiveFloor]:
        """By stream. None where nothing has to wait."""
        if not self._config.archive.required:
            return {}
        found: dict[str, list[UnarchivedSession]] = {}
        for one in [*await self._live(), *await self._waiting()]:
            found.setdefault(one.stream, []).append(one)
        return {
            stream: ArchiveFloor(min((one.position for one in some), key=entry_ids.parse), tuple(some))
            for stream, some in found.items()
        }

    async def _live(self) -> list[UnarchivedSession]:
        """Sessions that are open, or closed a moment ago."""
        fields = (keys.STREAM_SESSION_ID, keys.STREAM_NAME, keys.STREAM_POSITION)
        live: list[UnarchivedSession] = []
        for some in paging.pages(await session_index.live_identities(self._link, self._keys), READ_MAX_SESSIONS):
            answers: Sequence[Any] = await self._link.do_all(
                [("HMGET", self._keys.session(identity), *fields) for identity in some]
            )
            for identity, (number, stream, position) in zip(some, answers, strict=True):
                if number is not None and stream is not None:
                    live.append(
                        UnarchivedSession(
                            int(number), stream.decode(), position.decode() if position else entry_ids.MIN, identity
                        )
                    )
        return live

    async def _waiting(self) -> list[UnarchivedSession]:
        members = await self._link.do("ZRANGE", self._keys.unarchived(), 0, -1)
        return [one for one in map(UnarchivedSession.parse, members) if one.holds_data]

    async def is_over_limit(self, stream: str, floor: ArchiveFloor) -> bool:
        """Whether a stream takes more memory than waiting may cost. Says so before it does."""
        if not self._config.archive.max_bytes:
            return False
        sizes = await self._link.do_all(
            [("MEMORY", "USAGE", key, "SAMPLES", 1000) for key in (keys.stream(stream), keys.cold_stream(stream))]
        )
        used = sum(size or 0 for size in sizes)
        share = used / self._config.archive.max_bytes
        counters.counts.archive_held[stream] = share
        facts = {
            "stream": stream,
            "bytes": used,
            "max_bytes": self._config.archive.max_bytes,
            "sessions": len(floor.sessions),
        }
        if share >= self._config.archive.alarm_at and stream not in self._alarmed:
            self._alarmed.add(stream)
            self._log.warning("archive_behind", **facts)
        elif share < self._config.archive.alarm_at:
            self._alarmed.discard(stream)
        return share >= 1

    def forget(self, floors: dict[str, ArchiveFloor]) -> None:
        """Streams that no longer wait."""
        for stream in [one for one in counters.counts.archive_held if one not in floors]:
            del counters.counts.archive_held[stream]
        self._alarmed &= floors.keys()

    async def first_id(self, stream: str) -> str:
        """Of the entries that are live, or the last that there was."""
        info: dict[bytes, Any] = {**pairs_to_dict(await self._link.do("XINFO", "STREAM", keys.stream(stream)))}
        first = info.get(b"first-entry")
        return str(first[0] if first else info[b"last-generated-id"], "ascii")

    async def note_cut(self, stream: str, floor: ArchiveFloor, entries: int, first_id: str) -> None:
        """Entries before `first_id` are gone that the archive does not have. Says of which sessions, and notes it with
        each."""
        cut = [one for one in floor.sessions if entry_ids.parse(one.position) < entry_ids.parse(first_id)]
        await self._link.do_all([functions.note_cut(self._keys, one.identity, one.stream_session_id) for one in cut])
        counters.counts.archive_cut[stream] += entries
        names = [one.identity for one in cut[:LOGGED_SESSIONS_MAX]]
        self._log.error("archive_cut", stream=stream, entries=entries, sessions=len(cut), some=names)

    async def renew_queue(self) -> None:
        """Keep sessions that wait from expiring, and forget those that are gone."""
        ttl_s = self._config.session.open_ttl_s if self._config.archive.required else 0
        due_ms = now_ms() - min(self._config.session.open_ttl_s, self._config.session.closed_ttl_s) * 500
        members: list[bytes] = await self._link.do("ZRANGEBYSCORE", self._keys.unarchived(), "-inf", due_ms)
        for page in paging.pages(members, READ_MAX_SESSIONS):
            some = [UnarchivedSession.parse(member) for member in page]
            answers = await self._link.do_all(
                [
                    functions.extend_unarchived(
                        self._keys, one.identity, one.stream_session_id, ttl_s=ttl_s if one.holds_data else 0
                    )
                    for one in some
                ]
            )
            there = [one for one, is_there in zip(some, answers, strict=True) if is_there]
            gone = [one for one, is_there in zip(some, answers, strict=True) if not is_there]
            if there:
                words = [word for one in there for word in (now_ms(), one.member)]
                await self._link.do("ZADD", self._keys.unarchived(), "XX", *words)
            if gone:
                await self._link.do("ZREM", self._keys.unarchived(), *(one.member for one in gone))
                lost = [one.identity for one in gone if one.holds_data]
                if lost and self._config.archive.required:
                    self._log.error("archive_lost", sessions=len(lost), some=lost[:LOGGED_SESSIONS_MAX])
