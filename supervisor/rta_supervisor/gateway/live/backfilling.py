"""Sends a viewer what was before its subscription: from the live stream and its cold part, and from the archive what
is in neither any more. Page by page, at the pace of the viewer.
"""

import time
from collections.abc import Iterable
from typing import Final

import anyio

from rta_supervisor.gateway.archived.entry_store import ArchivedEntries
from rta_supervisor.gateway.live.entry_sender import EntrySender
from rta_supervisor.gateway.live.session_feed import SessionFeed
from rta_supervisor.gateway.live.stream_hub import StreamHub
from rta_supervisor.gateway.live.viewer import Viewer
from rta_supervisor.gateway.live.wish import Backfill, Wish
from rta_supervisor.observe import tail_start
from rta_supervisor.observe.tail import StreamFollower
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids
from rta_wire.stream import cursor

PRIME_WAIT_S: Final = 0.6
"""How long a subscription waits for the last values from before the stream was followed."""

QUEUE_BYTES: Final = 256 * 1024
"""Back-fill is added to a queue that is shorter than this: what is live must not wait long behind it."""

PAGE_ENTRIES: Final = 32
ROOM_PAUSE_S: Final = 0.005


class BackfillServing:
    """Fills up subscriptions. `readers` limits for how many viewers Redis is read at the same time."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        archived: ArchivedEntries,
        sender: EntrySender,
        readers: anyio.CapacityLimiter,
    ) -> None:
        self._link = link
        self._config = config
        self._archived = archived
        self._sender = sender
        self._readers = readers

    def begin(self, viewer: Viewer, hub: StreamHub, feed: SessionFeed, wish: Wish) -> Backfill:
        """What a new subscription has to be sent from before it."""
        record = feed.record
        now_ms = int(time.time() * 1000)
        until = hub.position if viewer.is_live else viewer.cursor
        if until == entry_ids.MIN:
            # There is no such stream any more. What it had may be in the archive.
            until = entry_ids.format_id(now_ms)
        reference_ms = min(now_ms, record.updated_ms) if record.is_closed else now_ms
        since_ms = reference_ms - int(min(self._config.gateway.backfill_s * 1000, reference_ms))
        after = max(record.first_position, tail_start.position_since(since_ms, until), key=entry_ids.parse)
        return Backfill(wish, after, until)

    async def fill(self, viewer: Viewer, hub: StreamHub, feed: SessionFeed, backfill: Backfill) -> None:
        """Send one page."""
        if not backfill.is_begun:
            backfill.is_begun = True
            with anyio.move_on_after(PRIME_WAIT_S):
                await feed.primed.wait()
            backfill.last_frames = iter(feed.last_frames(backfill.wish))
        for frame in backfill.last_frames:
            self._sender.send_frame(viewer, frame)
            # There may be many more of them than a viewer's queue holds.
            if not await _has_room(viewer):
                return
        if not entry_ids.is_after(backfill.until, backfill.after):
            viewer.backfills.remove(backfill)
        elif not await _has_room(viewer):
            return
        elif entry_ids.is_after(backfill.archived_until, backfill.after):
            await self._fill_from_archive(viewer, feed, backfill)
        else:
            await self._fill_from_stream(viewer, hub, feed, backfill)

    async def _fill_from_archive(self, viewer: Viewer, feed: SessionFeed, backfill: Backfill) -> None:
        entries = await self._archived.read(feed.record.key, backfill.after, backfill.archived_until)
        if self._send(viewer, feed, backfill, entries) and not entries:
            backfill.after = backfill.archived_until

    async def _fill_from_stream(self, viewer: Viewer, hub: StreamHub, feed: SessionFeed, backfill: Backfill) -> None:
        follower = StreamFollower(self._link, self._config.keys, hub.stream, backfill.after, page_entries=PAGE_ENTRIES)
        async with self._readers:
            await follower.read()
        page, items = follower.page, follower.take()
        entries = [item for item in items if isinstance(item, cursor.StreamEntry)]
        is_broken = any(isinstance(item, cursor.Gap) for item in items) or not page.entries
        if is_broken:
            # The stream does not go on where the back-fill is: what is missing may be in the archive.
            before_next = entry_ids.previous_id(page.entries[0][0].decode()) if page.entries else backfill.until
            backfill.archived_until = min(before_next, backfill.until, key=entry_ids.parse)
            if entry_ids.is_after(backfill.archived_until, backfill.after):
                return
        until = entry_ids.parse(backfill.until)
        wanted = [entry for entry in entries if entry_ids.parse(entry.id) <= until]
        if not self._send(viewer, feed, backfill, wanted):
            return
        # An entry that is no burst ends what was taken of a page: the rest of it is read again from there.
        is_whole = follower.position == (page.entries[-1][0].decode() if page.entries else follower.position)
        if len(wanted) < len(entries) or (page.is_complete and is_whole):
            viewer.backfills.remove(backfill)
        elif entry_ids.is_after(follower.position, backfill.after):
            backfill.after = follower.position

    def _send(
        self, viewer: Viewer, feed: SessionFeed, backfill: Backfill, entries: Iterable[cursor.StreamEntry]
    ) -> bool:
        """Send entries of the session. False where the viewer's queue is full: the rest is read again later, since
        what waits for a viewer is in its queue only."""
        for entry in entries:
            if entry.stream_session_id == feed.record.stream_session_id:
                if viewer.queued_bytes > QUEUE_BYTES or not viewer.drained.is_set() or viewer.is_over:
                    return False
                self._sender.send_entry(viewer, entry, backfill.wish, notices=False)
            backfill.after = entry.id
        return True


async def _has_room(viewer: Viewer) -> bool:
    """Wait until little is queued for a viewer. False where that is too much already: other things come first then."""
    while viewer.queued_bytes > QUEUE_BYTES:
        if not viewer.drained.is_set() or viewer.is_over:
            return False
        # The transport tells when its queue is full and when it is not, and nothing in between.
        await anyio.sleep(ROOM_PAUSE_S)
    return viewer.drained.is_set() and not viewer.is_over
