"""One viewer: a WebSocket, what it wants, and how far it was served. Up to date it gets what the reader of the stream
passes on; behind, it is served from Redis where it left off, as fast as it takes it.

Nothing waits for a viewer: what it has not read waits in its own queue, which is bounded.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from google.protobuf.message import DecodeError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from rta_supervisor.gateway.access.grant import Grant
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live import frames
from rta_supervisor.gateway.live import wish as wishes
from rta_supervisor.gateway.live.session_feed import SessionFeed
from rta_supervisor.gateway.live.stream_hub import StreamHub
from rta_supervisor.gateway.live.wish import Backfill, Wish
from rta_wire import entry_ids
from rta_wire.pb import stream_pb2

SLICE_BYTES: Final = 2048
"""Of what a viewer sent, between two looks at everybody else: it may hold hundreds of messages."""

MORE_GRACE_S: Final = 0.5
"""How long after a subscription another one may come, where the session has ended and the close waits."""

CHANNELS_MAX: Final = 262_144
CLOSE_TIMEOUT_S: Final = 20.0


class ViewerOwner(Protocol):
    """What a viewer needs of the service that it belongs to."""

    counts: GatewayCounts

    def work_for(self, viewer: "Viewer") -> None:
        """Serve a viewer that is behind, or subscribed to something, until it is neither."""

    def forget(self, viewer: "Viewer", reason: str) -> None:
        """Note that a viewer has left."""


class Viewer(asyncio.Protocol):
    """The protocol of one connection after its upgrade."""

    def __init__(
        self, owner: ViewerOwner, transport: asyncio.Transport, websocket: ServerProtocol, identity: str, grant: Grant
    ) -> None:
        self.identity = identity
        self.grant = grant
        self.address = ""
        self.joined_s = time.time()
        self.transport = transport
        self.hub: StreamHub | None = None
        self.feed: SessionFeed | None = None
        self.wish = wishes.NOTHING
        self.is_live = False
        self.cursor = entry_ids.MIN
        """While the viewer is behind: the last entry that it was served."""
        self.added: int | None = None
        self.backfills: list[Backfill] = []
        self.is_ending = False
        self.ends_not_before_s = 0.0
        self.gap_entries = 0
        self.queue_limit = 0
        self.written = 0
        self.taken = 0
        self.taken_s = self.heard_s = self.pinged_s = time.monotonic()
        self.drained = asyncio.Event()
        self.drained.set()
        self.is_working = False
        self.make_backfill: Callable[[Wish], Backfill] | None = None
        self._owner = owner
        self._websocket = websocket
        self._pending = wishes.NOTHING
        self._is_subscribing = False
        self._unread = b""
        self._fragments: list[bytes] = []
        self._pong = b""
        self._leave_reason = "gone"

    # What asyncio calls.

    def data_received(self, data: bytes) -> None:
        self.heard_s = time.monotonic()
        if self._unread:
            self._unread += data
            return
        self._unread = data
        self._receive()

    def eof_received(self) -> bool:
        self._websocket.receive_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - as asyncio has it
        self._leave_feed()
        self.drained.set()
        self._owner.forget(self, self._leave_reason)

    def pause_writing(self) -> None:
        """The queue is full. From here on the viewer is served from Redis, when it has taken most of what waits."""
        self.drained.clear()
        self.fall_behind()

    def resume_writing(self) -> None:
        self.drained.set()
        self._flush()

    # What feeds and the service call.

    @property
    def is_over(self) -> bool:
        """Whether nothing may be sent any more."""
        return self._websocket.state is not State.OPEN or self.transport.is_closing()

    @property
    def queued_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def send(self, payload: bytes) -> None:
        self.written += len(payload)
        self.transport.write(payload)

    def end(self) -> None:
        self.is_ending = True
        self.close_if_done()

    @property
    def position(self) -> tuple[str, int | None]:
        if self.is_live and self.hub is not None:
            return self.hub.position, self.hub.added
        return self.cursor, self.added

    def restart(self, until: str, added: int) -> None:
        """Go on at the start of a stream that was removed, and perhaps made again. What the viewer did not get of the
        old one, up to an id, is looked for in the archive; of the new one as many entries are gone as were `added`."""
        after, _ = self.position
        self.cursor, self.added = entry_ids.MIN, added
        if self.wish != wishes.NOTHING and entry_ids.is_after(until, after):
            self.backfills.append(Backfill(self.wish, after, until, is_begun=True, archived_until=until))
            self._owner.work_for(self)

    def fill_gap(self, after: str, until: str) -> None:
        """Look for entries between two ids in the archive: the stream has them no more."""
        self.backfills.append(Backfill(self.wish, after, until, is_begun=True))
        self._owner.work_for(self)

    def attach(self, hub: StreamHub, feed: SessionFeed) -> bool:
        """Become up to date with what the feed has in memory. False where that does not go back far enough."""
        bursts = feed.bursts_after(self.cursor)
        if bursts is None:
            return False
        self.is_live = True
        feed.add(self, self.wish)
        hub.tell_missed(self, feed, self.cursor)
        payload = b"".join(burst.frame_for(self.wish) for burst in bursts)
        self.cursor, self.added = hub.position, hub.added
        if payload and not self.is_over:
            self._owner.counts.bytes += len(payload)
            self._owner.counts.frames += len(bursts)
            self.send(payload)
        if feed.is_ended:
            self.is_ending = True
        return True

    def fall_behind(self) -> None:
        """Go on from Redis behind the last entry that the reader passed on."""
        if self.is_live and self.hub is not None and self.feed is not None:
            self.feed.remove(self, self.wish)
            self.is_live = False
            self.cursor, self.added = self.hub.position, self.hub.added
            self._owner.counts.catch_ups += 1
            self._owner.work_for(self)

    def close_if_done(self) -> None:
        """The normal close, once the session has ended and everything was sent."""
        if not self.is_ending or not self.is_live or self.backfills or self.is_working or self.is_over:
            return
        early_s = self.ends_not_before_s - time.monotonic()
        if early_s > 0:
            asyncio.get_running_loop().call_later(early_s, self.close_if_done)
        else:
            self.close(CloseCode.NORMAL_CLOSURE, left="session_ended")

    def close(self, code: CloseCode, reason: str = "", *, left: str) -> None:
        """Send a close frame behind everything that waits, and end the connection when the viewer has answered."""
        if self.is_over:
            return
        self._leave_reason = left
        self._leave_feed()
        self._websocket.send_close(code, reason)
        self._flush()
        asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self._abort_unless_unread)

    def abort(self, left: str) -> None:
        """End the connection at once."""
        self._leave_reason = left
        self.transport.abort()

    # What the viewer sends.

    def _receive(self) -> None:
        """Read a slice of what came; the rest follows when everybody else had a turn."""
        if self.transport.is_closing():
            return
        piece, self._unread = self._unread[:SLICE_BYTES], self._unread[SLICE_BYTES:]
        self._websocket.receive_data(piece)
        for event in self._websocket.events_received():
            if isinstance(event, Frame):
                self._take_frame(event)
        self._flush()
        if self._unread and not self.transport.is_closing():
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._receive)
        elif not self.transport.is_closing():
            self.transport.resume_reading()

    def _take_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.TEXT:
            self.close(CloseCode.UNSUPPORTED_DATA, "A StreamRequest is a binary message.", left="bad_request")
        elif frame.opcode in (Opcode.BINARY, Opcode.CONT):
            # Of empty ones there can be any number: the limit of a message does not count them.
            if frame.data:
                self._fragments.append(bytes(frame.data))
            if frame.fin:
                message = b"".join(self._fragments)
                self._fragments.clear()
                self._take_message(message)
        elif frame.opcode is Opcode.CLOSE:
            self._leave_reason = "left"
            self._leave_feed()

    def _take_message(self, message: bytes) -> None:
        try:
            request = stream_pb2.StreamRequest.FromString(message)
        except DecodeError:
            self.close(CloseCode.INVALID_DATA, "That is no StreamRequest.", left="bad_request")
            return
        if request.WhichOneof("option") != "subscribe":
            return
        wish = wishes.of_subscription(request.subscribe)
        self._pending |= wish
        if len(self._pending.channel_ids) > CHANNELS_MAX:
            self.close(CloseCode.POLICY_VIOLATION, f"More than {CHANNELS_MAX} channels.", left="bad_request")
        elif not self._is_subscribing:
            # Requests that come together are served together: each one alone would read the back-fill anew.
            self._is_subscribing = True
            asyncio.get_running_loop().call_soon(self.subscribe)

    def subscribe(self) -> None:
        """Apply what was asked for, once the viewer has its first messages."""
        if self.make_backfill is None or self.is_over:
            return
        self._is_subscribing = False
        added = self._pending.minus(self.wish)
        wish = self.wish | self._pending
        self._pending = wishes.NOTHING
        if added == wishes.NOTHING:
            return
        if self.is_live and self.feed is not None:
            self.feed.remove(self, self.wish)
            self.feed.add(self, wish)
        backfill = self.make_backfill(added)
        if self.backfills and not self.backfills[-1].is_begun:
            # The one before has not begun: both are read at once.
            backfill.wish |= self.backfills.pop().wish
        self.backfills.append(backfill)
        self.wish = wish
        self.ends_not_before_s = time.monotonic() + MORE_GRACE_S
        self._owner.work_for(self)

    def ping(self) -> None:
        """Ask a quiet viewer whether it is still there."""
        if not self.is_over:
            self.pinged_s = time.monotonic()
            self._websocket.send_ping(b"")
            self._flush()

    def _flush(self) -> None:
        """Write what the protocol has to say: pongs, pings, a close. While the queue is full pongs wait, and only the
        last one is sent: RFC 6455 allows that, and a viewer that asks and does not read must not fill memory."""
        waiting = [self._pong, *self._websocket.data_to_send()] if self._pong else self._websocket.data_to_send()
        self._pong = b""
        for data in waiting:
            if not data:
                self.transport.close()
            elif data[0] == frames.PONG and not self.drained.is_set():
                self._pong = data
            else:
                self.send(data)

    def _leave_feed(self) -> None:
        if self.feed is not None:
            self.feed.remove(self, self.wish)
            self.is_live = False

    def _abort_unless_unread(self) -> None:
        """The viewer has not answered the close. One that still reads what waits before it gets its time."""
        if not self.queued_bytes:
            self.transport.abort()
