"""Reads the archive floors of streams from Redis, limits the memory that entries above them may take, and keeps the
sessions in the sorted set `unarchived` from expiring.

The set is in Redis, so that any supervisor can take over. A closed session is put into it before it leaves the index of
live sessions: reading the index first and the set second misses none. What follows from a floor is in `archive_floor`.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import server_functions, session_index
from rta_supervisor.retention.archive_floor import ArchiveFloor, floors_by_stream
from rta_supervisor.retention.unarchived_session import UnarchivedSession, first_unarchived
from rta_supervisor.settings import settings
from rta_supervisor.transport import paging, scanning
from rta_supervisor.transport.link import Link
from rta_wire import keys

READ_MAX_SESSIONS: Final = 1000
LOGGED_SESSIONS_MAX: Final = 10
MEMORY_SAMPLES: Final = 1000
"""Entries of a stream from which Redis estimates the memory that it takes."""


class ArchiveFloorStore:
    """The archive floors of all streams, and an alarm where a stream comes near its limit of memory."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config
        self._alarmed: set[str] = set()
        self._log = log.get(duty="trim")

    async def read(self) -> dict[str, ArchiveFloor]:
        """The floors of all streams that have one, by stream. Empty where the archive is not required."""
        if not self._config.archive.required:
            return {}
        return floors_by_stream([*await self._live_sessions(), *await self._closed_sessions()])

    async def _live_sessions(self) -> list[UnarchivedSession]:
        """Sessions in the index: those that are open or were closed a moment ago."""
        fields = (keys.STREAM_SESSION_ID, keys.STREAM_NAME, keys.STREAM_POSITION)
        sessions: list[UnarchivedSession] = []
        for page in paging.pages(await session_index.live_identities(self._link, self._keys), READ_MAX_SESSIONS):
            rows: Sequence[Any] = await self._link.do_all(
                [
                    command
                    for identity in page
                    for command in (
                        ("HMGET", self._keys.session(identity), *fields),
                        ("HGET", self._keys.session_state(identity), keys.ARCHIVED_UNTIL),
                    )
                ]
            )
            for identity, (number, stream, position), archived in zip(page, rows[::2], rows[1::2], strict=True):
                if number is not None and stream is not None:
                    begin = first_unarchived(position, archived)
                    sessions.append(UnarchivedSession(int(number), stream.decode(), begin, identity))
        return sessions

    async def _closed_sessions(self) -> list[UnarchivedSession]:
        """Closed sessions whose entries the archive does not have."""
        members = await scanning.read_sorted_set(self._link, self._keys.unarchived())
        return [session for session in map(UnarchivedSession.parse, members) if session.needs_entries]

    async def is_over_limit(self, stream: str, floor: ArchiveFloor) -> bool:
        """Whether a stream takes more memory than `archive.max_bytes`. Logs a warning before it does."""
        if not self._config.archive.max_bytes:
            return False
        sizes = await self._link.do_all(
            [
                ("MEMORY", "USAGE", key, "SAMPLES", MEMORY_SAMPLES)
                for key in (keys.stream(stream), keys.cold_stream(stream))
            ]
        )
        used = sum(size or 0 for size in sizes)
        share = used / self._config.archive.max_bytes
        counters.counts.archive_held[stream] = share
        if share < self._config.archive.alarm_at:
            self._alarmed.discard(stream)
        elif stream not in self._alarmed:
            self._alarmed.add(stream)
            self._log.warning(
                "archive_behind",
                stream=stream,
                bytes=used,
                max_bytes=self._config.archive.max_bytes,
                sessions=len(floor.sessions),
            )
        return share >= 1

    def forget_all_but(self, streams: Collection[str]) -> None:
        """Drop the metrics and alarms of streams that have no floor any more."""
        for stream in [name for name in counters.counts.archive_held if name not in streams]:
            del counters.counts.archive_held[stream]
        self._alarmed.intersection_update(streams)

    async def note_cut(self, stream: str, floor: ArchiveFloor, entries: int, first_id: str) -> None:
        """Note with each session that entries of it were removed before the archive had them.

        `first_id`: the first entry that is left of the stream.
        """
        sessions = floor.sessions_cut_before(first_id)
        await self._link.do_all(
            [server_functions.note_cut(self._keys, session.identity, session.stream_session_id) for session in sessions]
        )
        counters.counts.archive_cut[stream] += entries
        identities = [session.identity for session in sessions[:LOGGED_SESSIONS_MAX]]
        self._log.error("archive_cut", stream=stream, entries=entries, sessions=len(sessions), some=identities)

    async def renew_unarchived(self) -> None:
        """Keep closed sessions that the archive does not have from expiring, and unlist those that have expired."""
        due_ms = now_ms() - min(self._config.session.open_ttl_s, self._config.session.closed_ttl_s) * 500
        limit = ("LIMIT", 0, READ_MAX_SESSIONS)
        # Each page leaves that range: a session is renewed or unlisted.
        while page := await self._link.do("ZRANGEBYSCORE", self._keys.unarchived(), "-inf", due_ms, *limit):
            await self._renew_page([UnarchivedSession.parse(member) for member in page])

    async def _renew_page(self, page: Sequence[UnarchivedSession]) -> None:
        ttl_s = self._config.session.open_ttl_s if self._config.archive.required else 0
        replies = await self._link.do_all(
            [
                server_functions.extend_unarchived(
                    *(self._keys, session.identity, session.stream_session_id),
                    ttl_s=ttl_s if session.needs_entries else 0,
                )
                for session in page
            ]
        )
        live = [session for session, exists in zip(page, replies, strict=True) if exists]
        expired = [session for session, exists in zip(page, replies, strict=True) if not exists]
        if live:
            scores = [argument for session in live for argument in (now_ms(), session.member)]
            await self._link.do("ZADD", self._keys.unarchived(), "XX", *scores)
        if expired:
            await self._link.do("ZREM", self._keys.unarchived(), *(session.member for session in expired))
            lost = [session.identity for session in expired if session.needs_entries]
            if lost and self._config.archive.required:
                self._log.error("archive_lost", sessions=len(lost), some=lost[:LOGGED_SESSIONS_MAX])
