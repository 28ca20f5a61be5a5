"""The readers of all streams that are watched: made for the first viewer, and let go some time after the last."""

import contextlib
import time
from collections.abc import Iterator
from typing import Final

import anyio
import anyio.abc
from websockets.frames import CloseCode

from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.archived.entry_store import ArchivedEntries
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live import watched_session
from rta_supervisor.gateway.live.session_feed import SessionFeed
from rta_supervisor.gateway.live.stream_hub import RING_BYTES, RINGS_BYTES, UNREADABLE_ERRORS, StreamHub
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS
from rta_supervisor.transport.link import Link
from rta_wire import keys

LINGER_S: Final = 10.0
"""How long a stream is followed after its last viewer has left: one that comes back finds it up to date."""

GONE_S: Final = 30.0
"""How long the record of a session may be missing: a supervisor restores one that Redis lost."""

UNSAID_S: Final = 1.0
"""How long the record of a session may say that it has ended before its stream does."""


class HubTable:
    """One reader for each stream that is watched."""

    def __init__(self, link: Link, names: keys.Keys, counts: GatewayCounts, archived: ArchivedEntries) -> None:
        self._link = link
        self._archived = archived
        self._keys = names
        self._counts = counts
        self._hubs: dict[str, StreamHub] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._missing_since_s: dict[SessionFeed, float] = {}
        self._log = log.get()

    def __len__(self) -> int:
        return len(self._hubs)

    @contextlib.contextmanager
    def joining(self, stream: str, tasks: anyio.abc.TaskGroup) -> Iterator[StreamHub]:
        """The reader of a stream, started where there is none, and kept while somebody is about to join it: it may wait
        for Redis for longer than a reader without viewers is kept."""
        hub = self._get(stream, tasks)
        hub.joining += 1
        try:
            yield hub
        finally:
            hub.joining -= 1
            hub.used_s = time.monotonic()

    def _get(self, stream: str, tasks: anyio.abc.TaskGroup) -> StreamHub:
        hub = self._hubs.get(stream)
        if hub is None:
            hub = self._hubs[stream] = StreamHub(self._link, self._keys, stream, self._counts, self._archived)
            scope = self._scopes[stream] = anyio.CancelScope()
            tasks.start_soon(self._follow, hub, scope, name=f"hub {stream}")
            for each in self._hubs.values():
                each.ring_max_bytes = min(RING_BYTES, RINGS_BYTES // len(self._hubs))
        return hub

    async def sweep(self) -> None:
        """Let go of what nobody watches, and look whether sessions have ended without saying so."""
        now_s = time.monotonic()
        for hub in list(self._hubs.values()):
            for number, feed in list(hub.feeds.items()):
                if feed.members:
                    feed.used_s = hub.used_s = now_s
                elif now_s - feed.used_s >= LINGER_S:
                    del hub.feeds[number]
                    self._missing_since_s.pop(feed, None)
            if not hub.feeds and not hub.joining and now_s - hub.used_s >= LINGER_S:
                self._scopes[hub.stream].cancel()
                self._remove(hub)
        try:
            for hub in list(self._hubs.values()):
                for feed in list(hub.feeds.values()):
                    if feed.members:
                        await self._check_record(feed)
        except (*OUTAGE_ERRORS, *REFUSAL_ERRORS):
            # The readers of the streams have the same trouble, and say so. To wait for every session would keep stuck
            # viewers, and those whose token has ended, for as long.
            return

    async def _follow(self, hub: StreamHub, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await hub.run()
        except UNREADABLE_ERRORS as error:
            self._log.error("gateway_stream_unreadable", stream=hub.stream, error=str(error))
            self._remove(hub)
            hub.error = error
            hub.started.set()
            for feed in hub.feeds.values():
                for viewer in list(feed.members):
                    viewer.close(CloseCode.INTERNAL_ERROR, "This session can't be read.", left="unreadable")

    def _remove(self, hub: StreamHub) -> None:
        if self._hubs.get(hub.stream) is hub:
            del self._hubs[hub.stream], self._scopes[hub.stream]

    async def _check_record(self, feed: SessionFeed) -> None:
        """End the viewers of a session whose record says that it has ended, is another one, or is gone for long."""
        try:
            record = await watched_session.read(self._link, self._keys, feed.record.identity)
        except UNREADABLE_ERRORS:
            # Somebody has put something else in its place.
            return
        is_same = record is not None and record.stream_session_id == feed.record.stream_session_id
        if feed.is_ended or (record is not None and is_same and not record.is_closed):
            self._missing_since_s.pop(feed, None)
            return
        now_s = time.monotonic()
        since_s = self._missing_since_s.setdefault(feed, now_s)
        if now_s - since_s < (GONE_S if record is None else UNSAID_S):
            return
        self._missing_since_s.pop(feed, None)
        if record is not None and is_same:
            # Its last entry was lost with a server, or trimmed.
            feed.record = record
            for viewer in list(feed.members):
                viewer.send(record.first_frames()[0])
        feed.end()
