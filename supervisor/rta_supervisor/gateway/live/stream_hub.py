"""The one reader of a stream, however many viewers its sessions have. Reads with XREAD from where it is, and outlives
outages of Redis; what was trimmed, made cold or made again meanwhile is found by `StreamFollower`.
"""

from collections.abc import Sequence
from typing import Any, Final

import anyio
import redis.exceptions

from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.archived.entry_store import ArchivedEntries
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live.live_burst import LiveBurst
from rta_supervisor.gateway.live.session_feed import SessionFeed
from rta_supervisor.gateway.live.watched_session import WatchedSession
from rta_supervisor.observe.tail import StreamFollower
from rta_supervisor.transport import replies
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys
from rta_wire.stream import cursor

READ_ENTRIES: Final = 64
GROUP_BYTES: Final = 256 * 1024
"""About how much is passed on at a time: a viewer's queue is looked at in between."""

BLOCK_MAX_S: Final = 3.0
BLOCK_SHARE: Final = 0.6
"""Of `redis.timeout_s`: a read that waits must not look like a Redis that does not answer."""

STALL_S: Final = 1.0
"""By how much a read may take longer than it waits, before a look whether something was trimmed meanwhile."""

OUTAGE_PAUSE_S: Final = 0.2
RING_BYTES: Final = 2 * 1024 * 1024
"""Of the newest bursts of one session that are kept in memory."""

RINGS_BYTES: Final = 256 * 1024 * 1024
"""Of all sessions together."""


class StreamHub:
    """One stream, the sessions of it that somebody watches, and how far it was read."""

    def __init__(
        self, link: Link, names: keys.Keys, stream: str, counts: GatewayCounts, archived: ArchivedEntries
    ) -> None:
        self.stream = stream
        self.feeds: dict[int, SessionFeed] = {}
        self.position = entry_ids.MIN
        self.added: int | None = None
        """How many entries were ever added up to the position."""
        self.started = anyio.Event()
        self.ring_max_bytes = RING_BYTES
        self.used_s = 0.0
        self.error: Exception | None = None
        """Why the stream can't be read."""
        self._link = link
        self._keys = names
        self._counts = counts
        self._archived = archived
        self._block_ms = int(min(BLOCK_MAX_S, link.config.timeout_s * BLOCK_SHARE) * 1000)
        self._log = log.get().bind(stream=stream)

    def feed(self, record: WatchedSession) -> SessionFeed:
        """The feed of a session, made where there is none."""
        feed = self.feeds.get(record.stream_session_id)
        if feed is None:
            feed = SessionFeed(record, self.position, self._counts)
            self.feeds[record.stream_session_id] = feed
        return feed

    async def run(self) -> None:
        """Read and pass on until cancelled. Raises what Redis will refuse again: there is no such stream to read."""
        is_current = False
        while True:
            try:
                if not self.started.is_set():
                    await self._begin()
                elif is_current:
                    is_current = await self._read()
                else:
                    await self._read_all_parts()
                    is_current = True
                    self._link.outage_log.log_recovery()
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                self._link.outage_log.log_failure(error)
                is_current = False
                await anyio.sleep(OUTAGE_PAUSE_S)

    async def _begin(self) -> None:
        """Begin at the end of the stream: what is before it is read for each viewer that wants it."""
        info = await replies.read_stream_info(self._link, keys.stream(self.stream))
        self.position = replies.last_generated_id(info)
        self.added = 0 if info is None else int(info[b"entries-added"])
        self.started.set()

    async def _read(self) -> bool:
        """Wait for entries and pass them on. False where none came, or this process was held up for long: the stream
        may have been made again, or trimmed."""
        began_s = anyio.current_time()
        key = keys.stream(self.stream)
        reply = await self._link.do(
            *("XREAD", "COUNT", READ_ENTRIES, "BLOCK", self._block_ms, "STREAMS", key, self.position)
        )
        if not reply:
            return False
        [(_, entries)] = reply
        self._publish([(raw_id.decode(), fields) for raw_id, fields in entries])
        return anyio.current_time() - began_s < self._block_ms / 1000 + STALL_S

    async def _read_all_parts(self) -> None:
        """Read to the end of the stream as a reader of live and cold entries does, and find what is missing."""
        follower = StreamFollower(self._link, self._keys, self.stream, self.position, added=self.added)
        while True:
            await follower.read()
            for item in follower.take():
                if isinstance(item, cursor.Gap):
                    await self._take_gap(item, follower.position)
                elif isinstance(item, cursor.StreamEntry):
                    fields = (keys.ENTRY_ID, str(item.stream_session_id).encode(), keys.ENTRY_DATA, item.data)
                    self._publish([(item.id, fields)])
                else:
                    self._counts.bad_entries += 1
            self.position, self.added = follower.position, follower.added
            if follower.page.is_complete:
                return

    async def _take_gap(self, gap: cursor.Gap, end: str) -> None:
        """Entries were trimmed before they were read: viewers get those that the archive has as back-fill. `end`: of
        the stream, where nothing is left behind the gap."""
        if gap.restarted:
            # A stream whose sessions have all ended may be removed with its day: nobody misses it.
            if viewers := sum(len(feed.members) for feed in self.feeds.values() if not feed.is_over):
                self._log_gap(gap, viewers)
            self.position, self.added = entry_ids.MIN, 0
            for feed in list(self.feeds.values()):
                feed.restart()
            return
        until = end if gap.before is None else entry_ids.previous_id(gap.before)
        archived = [
            feed for feed in list(self.feeds.values()) if await self._archived.covers(feed.record.key, gap.after, until)
        ]
        # Also to viewers that joined meanwhile: they began before the gap.
        told = {feed: feed.fill_gap(gap.after, until) for feed in self.feeds.values()}
        if missing := sum(count for feed, count in told.items() if feed not in archived):
            self._log_gap(gap, missing)

    def _log_gap(self, gap: cursor.Gap, viewers: int) -> None:
        self._counts.gap_entries += gap.entries * viewers
        self._log.warning(
            "gateway_gap",
            after=gap.after,
            entries=gap.entries,
            exact=gap.exact,
            restarted=gap.restarted,
            viewers=viewers,
        )

    def _publish(self, entries: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Pass entries on to the feeds of their sessions, in groups of limited size."""
        first = 0
        while first < len(entries):
            last, size = first, 0
            while last < len(entries) and size < GROUP_BYTES:
                size += len(entries[last][1][-1])
                last += 1
            self._publish_group(entries[first:last])
            first = last

    def _publish_group(self, entries: Sequence[tuple[str, Sequence[Any]]]) -> None:
        by_feed: dict[SessionFeed, list[LiveBurst]] = {}
        for entry_id, flat in entries:
            number, data = _entry_fields(flat)
            feed = self.feeds.get(number)
            if feed is None:
                continue
            try:
                burst = LiveBurst(entry_id, data, self._counts)
            except errors.BadBurst as error:
                self._counts.bad_entries += 1
                self._log.warning("gateway_bad_entry", entry=entry_id, reason=str(error))
                continue
            by_feed.setdefault(feed, []).append(burst)
        # Before viewers are sent anything: one whose queue is full goes on from here.
        self.position = entries[-1][0]
        self._counts.entries += len(entries)
        if self.added is not None:
            self.added += len(entries)
        for feed, bursts in by_feed.items():
            feed.publish(bursts, self.ring_max_bytes)


def _entry_fields(flat: Sequence[Any]) -> tuple[int, bytes]:
    """Session and data of an entry; a number that no session has where it is malformed."""
    if len(flat) == 4 and flat[0] == keys.ENTRY_ID and flat[2] == keys.ENTRY_DATA and flat[1].isdigit():
        return int(flat[1][:20]), flat[3]
    fields = replies.pairs_to_dict(flat)
    number = fields.get(keys.ENTRY_ID, b"")
    return (int(number[:20]) if number.isdigit() else -1), fields.get(keys.ENTRY_DATA, b"")


UNREADABLE_ERRORS: Final = (redis.exceptions.ResponseError, errors.RtaError)
"""What ends a hub: the key is no stream, or the gateway may not read it."""
