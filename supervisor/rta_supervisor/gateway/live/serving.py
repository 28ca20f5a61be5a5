"""Serves one viewer what does not come to it by itself: its first messages, and what it missed while it was slow.
Reads from Redis, live and cold, at the pace of the viewer. `backfilling` sends what was before a subscription.
"""

import contextlib
import time
from typing import Final

import anyio
import anyio.lowlevel
from websockets.frames import CloseCode

from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.archived.entry_store import ArchivedEntries
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live import watched_session
from rta_supervisor.gateway.live.backfilling import BackfillServing
from rta_supervisor.gateway.live.entry_sender import EntrySender
from rta_supervisor.gateway.live.live_burst import LiveBurst
from rta_supervisor.gateway.live.session_feed import SessionFeed
from rta_supervisor.gateway.live.stream_hub import UNREADABLE_ERRORS, StreamHub, removed_until
from rta_supervisor.gateway.live.viewer import Viewer
from rta_supervisor.observe import tail_start
from rta_supervisor.observe.tail import StreamFollower
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys
from rta_wire.stream import cursor

PRIME_S: Final = 0.4
PRIME_BYTES: Final = 32 * 1024 * 1024
SUBSCRIBE_GRACE_S: Final = 2.0
"""How long a viewer may take to subscribe where its session has ended, before the normal close."""

OUTAGE_PAUSE_S: Final = 0.2
READERS: Final = 8
"""Viewers that are read for at the same time."""


class ViewerServing:
    """Brings viewers up to date."""

    def __init__(self, link: Link, config: settings.Settings, counts: GatewayCounts, archived: ArchivedEntries) -> None:
        self._link = link
        self._config = config
        self._counts = counts
        self._archived = archived
        self._readers = anyio.CapacityLimiter(READERS)
        self._sender = EntrySender(counts)
        self._backfilling = BackfillServing(link, config, archived, self._sender, self._readers)
        self._log = log.get()

    async def join(self, viewer: Viewer, hub: StreamHub) -> None:
        """Send the first messages, then everything that came since they were true."""
        await hub.started.wait()
        if hub.error is not None:
            raise hub.error
        position, added = hub.position, hub.added
        # Read after the position was noted: JSON is in the record before it is in the stream.
        record = await watched_session.read(self._link, self._config.keys, viewer.identity)
        if record is None or record.stream != hub.stream:
            viewer.close(CloseCode.NORMAL_CLOSURE, left="no_session")
            return
        feed = hub.feed(record)
        if viewer.is_over:
            return
        for frame in record.first_frames():
            self._sender.send_frame(viewer, frame)
        viewer.hub, viewer.feed = hub, feed
        viewer.cursor, viewer.added = position, added
        viewer.is_ending = record.is_closed
        # Also for a session that ends now: the subscription may be on its way.
        viewer.ends_not_before_s = time.monotonic() + SUBSCRIBE_GRACE_S
        feed.members[viewer] = None
        viewer.make_backfill = lambda wish: self._backfilling.begin(viewer, hub, feed, wish)
        viewer.attach(hub, feed)
        viewer.subscribe()

    async def serve(self, viewer: Viewer) -> None:
        """Until the viewer is up to date and has the back-fill of its subscriptions, or is gone."""
        hub, feed = viewer.hub, viewer.feed
        assert hub is not None
        assert feed is not None
        while not viewer.is_over:
            try:
                if not viewer.drained.is_set():
                    await viewer.drained.wait()
                elif not viewer.is_live:
                    await self._catch_up(viewer, hub, feed)
                elif viewer.backfills:
                    await self._backfilling.fill(viewer, hub, feed, viewer.backfills[0])
                else:
                    return
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                self._link.outage_log.log_failure(error)
                await anyio.sleep(OUTAGE_PAUSE_S)

    async def prime(self, hub: StreamHub, feed: SessionFeed) -> None:
        """Look backwards for the last message about each channel, for a limited time."""
        record = feed.record
        last: dict[int, bytes] = {}
        number = str(record.stream_session_id).encode()
        read_bytes = last_bytes = 0
        try:
            with anyio.move_on_after(PRIME_S), contextlib.suppress(*OUTAGE_ERRORS, *REFUSAL_ERRORS, *UNREADABLE_ERRORS):
                async for page in tail_start.pages_backwards(
                    self._link, self._config.keys, hub.stream, record.first_position
                ):
                    for entry in page:
                        fields = entry.by_name()
                        if fields.get(keys.ENTRY_ID) != number:
                            continue
                        data = fields.get(keys.ENTRY_DATA, b"")
                        read_bytes += len(data)
                        with contextlib.suppress(errors.BadBurst):
                            for channel, message in (
                                LiveBurst(entry.id, data, self._counts).index.last_messages().items()
                            ):
                                if channel not in last:
                                    last[channel] = message
                                    last_bytes += len(message)
                        # Entries may be a hundredth of what is in them.
                        if last_bytes > PRIME_BYTES:
                            break
                    if max(read_bytes, last_bytes) > PRIME_BYTES:
                        break
                    await anyio.lowlevel.checkpoint()
        finally:
            feed.prime(last)
            feed.primed.set()

    async def _catch_up(self, viewer: Viewer, hub: StreamHub, feed: SessionFeed) -> None:
        """Send what comes next, until the viewer is up to date or its queue is full."""
        if viewer.attach(hub, feed):
            return
        follower = StreamFollower(self._link, self._config.keys, hub.stream, viewer.cursor, added=viewer.added)
        while not viewer.is_over and viewer.drained.is_set():
            # Noted before the read: what the reader of the stream passes on meanwhile need not be on the page.
            position, added = hub.position, hub.added
            limit = entry_ids.parse(position)
            async with self._readers:
                await follower.read()
            is_whole = True
            for item in follower.take():
                if isinstance(item, cursor.Gap):
                    await self._take_gap(viewer, feed, item, (position, added))
                elif isinstance(item, errors.BadBurst):
                    # What is behind it on the page is read again.
                    self._counts.bad_entries += 1
                    is_whole = False
                elif entry_ids.parse(item.id) > limit:
                    # The reader of the stream had not passed this one on yet: it is in memory.
                    viewer.cursor, viewer.added = position, added
                    return
                else:
                    viewer.cursor = item.id
                    viewer.added = None if viewer.added is None else viewer.added + 1
                    if item.stream_session_id == feed.record.stream_session_id:
                        self._sender.send_entry(viewer, item, viewer.wish, notices=True)
                        if not viewer.drained.is_set():
                            # The rest is read again later: what waits for a viewer is in its queue only.
                            return
            if not is_whole:
                viewer.cursor, viewer.added = follower.position, follower.added
            elif follower.page.is_complete:
                reached = ((viewer.cursor, viewer.added), (position, added))
                viewer.cursor, viewer.added = max(reached, key=lambda place: entry_ids.parse(place[0]))
                return
            if viewer.attach(hub, feed):
                return

    async def _take_gap(
        self, viewer: Viewer, feed: SessionFeed, gap: cursor.Gap, reached: tuple[str, int | None]
    ) -> None:
        """Entries were trimmed before the viewer had them: it gets those that the archive has as back-fill. `reached`:
        how far the stream's reader was. What is behind that it passes on, or finds to be missing, itself."""
        position, added = reached
        unread = None if added is None or viewer.added is None else max(0, added - viewer.added)
        until = min(removed_until(gap), position, key=entry_ids.parse)
        entries = gap.entries
        if gap.restarted:
            if viewer.cursor != gap.after:
                # The reader of the stream has found that too, and told the viewer.
                return
            entries = max(entries, unread or 0)
            viewer.restart(until, gap.entries)
        else:
            if unread is not None and (gap.before is None or entry_ids.is_after(gap.before, position)):
                entries = min(entries, unread)
            if not entries:
                # The reader of the stream has not come so far: it tells.
                return
            viewer.added = None if viewer.added is None else viewer.added + entries
            viewer.fill_gap(gap.after, until)
        if await self._archived.covers(feed.record.key, gap.after, until):
            return
        self._counts.gap_entries += entries
        viewer.gap_entries += entries
        self._log.warning(
            "gateway_gap",
            stream=feed.record.stream,
            after=gap.after,
            entries=entries,
            exact=gap.exact,
            restarted=gap.restarted,
            viewers=1,
        )
