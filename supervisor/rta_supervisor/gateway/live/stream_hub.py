"""The one reader of a stream, however many viewers its sessions have. Reads with XREAD from where it is, and outlives
outages of Redis; what was trimmed, made cold or made again meanwhile is found by `StreamFollower`.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio
import redis.exceptions

from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.archived.entry_store import ArchivedEntries
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live.live_burst import LiveBurst
from rta_supervisor.gateway.live.session_feed import Audience, MissedRange, SessionFeed
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

BUSY_S: Final = 0.1
"""How late an entry may be read, and how long what was read may take to be passed on, before a look whether something
was trimmed meanwhile."""

CHECK_S: Final = 1.0
"""How long entries are read before a look whether there were more of them than that: what is trimmed as soon as it is
added is never read, and XREAD does not tell."""

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
        self.joining = 0
        """Viewers that wait for the start, or are about to be served."""
        self.started = anyio.Event()
        self.ring_max_bytes = RING_BYTES
        self.used_s = 0.0
        self.error: Exception | None = None
        """Why the stream can't be read."""
        self._link = link
        self._keys = names
        self._counts = counts
        self._archived = archived
        self._known_s = 0.0
        """Since when nothing is known of what was trimmed."""
        self._checked_s = 0.0
        self._checked_position = entry_ids.MIN
        """Up to here it is known that every entry was read, or is called missing."""
        self._least_delay_s = 0.0
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
        self._note_checked()
        self.started.set()

    def _note_checked(self) -> None:
        self._checked_s, self._checked_position = anyio.current_time(), self.position

    async def _read(self) -> bool:
        """Wait for entries and pass them on. False where none came, more wait than were asked for, this process was
        held up, or it is time for a look: the stream may have been made again, or trimmed up to behind what was read,
        and XREAD does not tell. What came late is not passed on: a position behind it would hide what was trimmed
        before it."""
        began_s = anyio.current_time()
        if began_s - self._known_s > BUSY_S or began_s - self._checked_s > CHECK_S:
            return False
        key = keys.stream(self.stream)
        reply = await self._link.do(
            *("XREAD", "COUNT", READ_ENTRIES, "BLOCK", self._block_ms, "STREAMS", key, self.position)
        )
        self._known_s = anyio.current_time()
        if not reply:
            return False
        entries = [(raw_id.decode(), fields) for raw_id, fields in reply[0][1]]
        if self._is_late(entries[0][0]):
            # Held up before the command was sent: what was trimmed meanwhile is before these, and they are read again.
            return False
        self._publish(entries)
        return len(entries) < READ_ENTRIES

    def _is_late(self, entry_id: str) -> bool:
        """Whether an entry was added some time before it was read here, by the clocks of both. A clock here that is
        ahead makes all entries late, which costs a command for each read."""
        delay_s = time.time() - entry_ids.ms_of(entry_id) / 1000
        self._least_delay_s = min(self._least_delay_s, delay_s)
        return delay_s - self._least_delay_s > BUSY_S

    async def _read_all_parts(self) -> None:
        """Read to the end of the stream as a reader of live and cold entries does, and find what is missing."""
        follower = StreamFollower(self._link, self._keys, self.stream, self.position, added=self.added)
        while True:
            # Before the read: a process that is held up between a reply and this line must not take it for new.
            self._known_s = anyio.current_time()
            await follower.read()
            entries: list[tuple[str, Sequence[Any]]] = []
            bad = 0
            for item in follower.take():
                if isinstance(item, cursor.Gap):
                    # It is before all entries of a page.
                    await self._take_gap(item, follower.position)
                elif isinstance(item, cursor.StreamEntry):
                    fields = (keys.ENTRY_ID, str(item.stream_session_id).encode(), keys.ENTRY_DATA, item.data)
                    entries.append((item.id, fields))
                else:
                    bad += 1
            self._counts.bad_entries += bad
            self._publish(entries)
            self.position = follower.position
            is_checked = follower.page.is_complete and not bad
            if is_checked and self.added is not None and follower.added is not None and follower.added > self.added:
                await self._take_unread(follower.added - self.added)
            self.added = follower.added
            if is_checked:
                self._note_checked()
            if follower.page.is_complete:
                return

    async def _take_gap(self, gap: cursor.Gap, end: str) -> None:
        """Entries were trimmed before they were read: viewers get those that the archive has as back-fill. `end`: of
        the stream, where nothing is left behind the gap."""
        if gap.restarted:
            await self._take_removal(gap)
            return
        until = end if gap.before is None else entry_ids.previous_id(gap.before)
        archived = await self._archived_feeds(gap.after, until)
        # Also to viewers that joined meanwhile: they began before the gap.
        told = {
            feed: feed.take_missed(MissedRange(gap, until, is_archived=feed in archived, is_refilled=True))
            for feed in self.feeds.values()
        }
        if self.added is not None:
            # Before anything behind the gap is passed on: a viewer whose queue is full then goes on from here.
            self.added += gap.entries
        missing = [viewer for feed, viewers in told.items() if feed not in archived for viewer in viewers]
        self._count_gap(gap, dict.fromkeys(missing, gap.entries))

    async def _take_unread(self, entries: int) -> None:
        """Entries were added and trimmed again between two reads, nobody knows which of those since the last look."""
        gap = cursor.Gap(self._checked_position, None, entries)
        archived = await self._archived_feeds(gap.after, self.position)
        if self.added is not None:
            self.added += entries
        missing: list[Audience] = []
        for feed in self.feeds.values():
            is_archived = feed in archived
            missed = MissedRange(gap, self.position, is_archived=is_archived, is_refilled=is_archived)
            told = feed.take_missed(missed)
            for viewer in feed.members:
                after, added = viewer.position
                if not viewer.is_live and added is not None and entry_ids.is_after(after, gap.after):
                    # It fell behind since then, and what it counts on begins behind the last look.
                    viewer.added = added + entries
                    told.append(viewer)
            missing += told if not is_archived else []
        self._count_gap(gap, dict.fromkeys(missing, entries))

    async def _archived_feeds(self, after: str, until: str) -> list[SessionFeed]:
        """The feeds of which the archive has everything in a range."""
        return [
            feed for feed in list(self.feeds.values()) if await self._archived.covers(feed.record.key, after, until)
        ]

    async def _take_removal(self, gap: cursor.Gap) -> None:
        """The stream was removed, and perhaps made again, before its end was read: viewers get what the archive has of
        the old one. With its day it is removed after its sessions have ended: who had everything misses nothing."""
        until = removed_until(gap)
        missing: dict[Audience, int] = {}
        for feed in list(self.feeds.values()):
            for viewer in list(feed.members):
                after, added = viewer.position
                unread = 0 if added is None else max(0, (self.added or 0) - added)
                if (unread or not feed.is_over) and not await self._archived.covers(feed.record.key, after, until):
                    missing[viewer] = unread + gap.entries
        for feed in list(self.feeds.values()):
            feed.restart(until, gap.entries)
        self.position, self.added = entry_ids.MIN, gap.entries
        self._count_gap(gap, missing)

    def tell_missed(self, viewer: Audience, feed: SessionFeed, position: str) -> None:
        """A viewer goes on behind an id with what is in memory: it misses what the reader of the stream missed."""
        for missed in feed.missed_after(position):
            if missed.is_refilled:
                viewer.fill_gap(missed.gap.after, missed.until)
            if not missed.is_archived:
                self._count_gap(missed.gap, {viewer: missed.gap.entries})

    def _count_gap(self, gap: cursor.Gap, missing: Mapping[Audience, int]) -> None:
        """Note how many entries viewers will never get; of a stream that was removed those that are known of."""
        if not missing:
            return
        for viewer, entries in missing.items():
            viewer.gap_entries += entries
        self._counts.gap_entries += sum(missing.values())
        self._log.warning(
            "gateway_gap",
            after=gap.after,
            entries=max(missing.values()),
            exact=gap.exact,
            restarted=gap.restarted,
            viewers=len(missing),
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


def removed_until(gap: cursor.Gap) -> str:
    """Up to which id a stream that was removed may have had entries behind a gap: below those of the stream that was
    made after it, where that has higher ids."""
    if gap.before is None or not entry_ids.is_after(gap.before, gap.after):
        return entry_ids.MAX
    return entry_ids.previous_id(gap.before)


def _entry_fields(flat: Sequence[Any]) -> tuple[int, bytes]:
    """Session and data of an entry; a number that no session has where it is malformed."""
    if len(flat) == 4 and flat[0] == keys.ENTRY_ID and flat[2] == keys.ENTRY_DATA and flat[1].isdigit():
        return int(flat[1][:20]), flat[3]
    fields = replies.pairs_to_dict(flat)
    number = fields.get(keys.ENTRY_ID, b"")
    return (int(number[:20]) if number.isdigit() else -1), fields.get(keys.ENTRY_DATA, b"")


UNREADABLE_ERRORS: Final = (redis.exceptions.ResponseError, errors.RtaError)
"""What ends a hub: the key is no stream, or the gateway may not read it."""
