"""One followed session: passes its bursts to all viewers that are up to date, and remembers what a viewer that joins or
was slow needs: the newest bursts, and the last message about each channel.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import anyio
from websockets.frames import CloseCode

from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live import frames
from rta_supervisor.gateway.live.live_burst import LiveBurst
from rta_supervisor.gateway.live.watched_session import WatchedSession
from rta_supervisor.gateway.live.wish import Wish
from rta_wire import entry_ids
from rta_wire.stream import cursor

LAST_MESSAGES_MAX_BYTES: Final = 32 * 1024 * 1024
"""Of one session. Past that long messages are forgotten: a viewer gets those channels with the next burst."""

LAST_MESSAGE_SHORT_BYTES: Final = 2048
LAST_MESSAGES_MAX: Final = 262_144
"""Channels of one session whose last message is remembered: the newest ones, where somebody names ever new ones."""

CHECKED_BURSTS: Final = 256
"""Bursts between two looks at how much the last messages take."""

MISSED_MAX: Final = 64
"""Ranges without entries that are remembered among the bursts in memory."""


class MissedRange(NamedTuple):
    """Entries after one id, up to and with another, that were trimmed before the reader of the stream had them."""

    gap: cursor.Gap
    until: str
    is_archived: bool
    """Whether the archive has all of them."""
    is_refilled: bool
    """Whether viewers are sent what the archive has."""


class Audience(Protocol):
    """A viewer as a feed knows it."""

    gap_entries: int
    """How many entries it will never get."""
    added: int | None
    """While it is behind: how many entries were ever added up to the last one that it was served."""
    is_live: bool
    """Whether it is sent what is passed on, and is not behind."""

    @property
    def position(self) -> tuple[str, int | None]:
        """The last entry that it was served, and how many were ever added up to that."""

    def send(self, payload: bytes) -> None:
        """Pass frames on."""

    def end(self) -> None:
        """Note that the session has ended: everything was sent."""

    def restart(self, until: str, added: int) -> None:
        """Note that the stream was removed, with entries up to an id that are left to the archive, and perhaps made
        again: it is read from its start, of which as many entries are missing as were `added`."""

    def fill_gap(self, after: str, until: str) -> None:
        """Note that entries between two ids were trimmed before they could be passed on."""

    def close(self, code: CloseCode, reason: str = "", *, left: str) -> None:
        """End the connection."""


class SessionFeed:
    """A session, its viewers by what they want, and what newcomers need."""

    def __init__(self, record: WatchedSession, position: str, counts: GatewayCounts) -> None:
        """`position`: of the stream's reader, from which on this feed gets all bursts of the session."""
        self.record = record
        self.members: dict[Audience, None] = {}
        """All viewers, those that are behind too."""
        self.is_ended = False
        self.primed = anyio.Event()
        """Set when the messages from before the feed began were looked through."""
        self.is_primed = False
        """Whether somebody looks through them."""
        self.used_s = 0.0
        self.ring_start = position
        """The feed has all bursts of the session after this id in memory."""
        self._counts = counts
        self._groups: dict[Wish, dict[Audience, None]] = {}
        self._ring: collections.deque[LiveBurst] = collections.deque()
        self._ring_bytes = 0
        self._missed: collections.deque[MissedRange] = collections.deque()
        """Ranges among the bursts in memory that have no entries, the oldest first."""
        self._last: dict[int, bytes] = {}
        self._bursts = 0

    def add(self, viewer: Audience, wish: Wish) -> None:
        """Pass all later bursts on to a viewer."""
        self._groups.setdefault(wish, {})[viewer] = None

    def remove(self, viewer: Audience, wish: Wish) -> None:
        group = self._groups.get(wish, {})
        group.pop(viewer, None)
        if not group:
            self._groups.pop(wish, None)

    @property
    def is_over(self) -> bool:
        """Whether nothing will be added to the session any more."""
        return self.is_ended or self.record.is_closed

    def publish(self, bursts: Sequence[LiveBurst], ring_max_bytes: int) -> None:
        """Pass bursts on. Each viewer gets those of one call in one write, and equal wishes get the same bytes."""
        for burst in bursts:
            self._last.update(burst.index.last_messages())
        if len(self._last) > LAST_MESSAGES_MAX:
            self._last = dict(list(self._last.items())[-LAST_MESSAGES_MAX // 2 :])
        counts = self._counts
        for wish, viewers in list(self._groups.items()):
            parts = [frame for burst in bursts if (frame := burst.frame_for(wish))]
            if not parts:
                continue
            payload = parts[0] if len(parts) == 1 else b"".join(parts)
            # A list: a viewer whose queue is full leaves the group while it is being sent to.
            for viewer in list(viewers):
                viewer.send(payload)
            counts.frames += len(parts) * len(viewers)
            counts.bytes += len(payload) * len(viewers)
        if any(burst.index.session_json and burst.is_end for burst in bursts):
            self.end()
        self._remember(bursts, ring_max_bytes)

    def end(self) -> None:
        """The session has ended. Viewers that are behind find that out when they get there."""
        self.is_ended = True
        for viewers in list(self._groups.values()):
            for viewer in list(viewers):
                viewer.end()

    def restart(self, until: str, added: int) -> None:
        """Forget what was read from a stream that was removed. It had entries up to an id; of the one that was made
        after it, as many as were `added` are gone."""
        self._ring.clear()
        self._missed.clear()
        self._ring_bytes = 0
        self.ring_start = entry_ids.MIN
        for viewer in list(self.members):
            viewer.restart(until, added)

    def take_missed(self, missed: MissedRange) -> list[Audience]:
        """Entries were trimmed before they were read. Gives the viewers that miss them: those that are up to date. Who
        is behind the range finds it in the stream, or is told when it goes on with what is in memory."""
        self._missed.append(missed)
        if len(self._missed) > MISSED_MAX:
            self._forget_until(self._missed[0].until)
        live = [viewer for viewers in self._groups.values() for viewer in viewers]
        if missed.is_refilled:
            for viewer in live:
                viewer.fill_gap(missed.gap.after, missed.until)
        return live

    def missed_after(self, position: str) -> list[MissedRange]:
        """Which ranges without entries end after an id."""
        return [missed for missed in self._missed if entry_ids.is_after(missed.until, position)]

    def bursts_after(self, position: str) -> list[LiveBurst] | None:
        """The bursts after an id; None where some of them are not in memory any more."""
        after = entry_ids.parse(position)
        if after < entry_ids.parse(self.ring_start):
            return None
        return [burst for burst in self._ring if entry_ids.parse(burst.entry_id) > after]

    def last_frames(self, wish: Wish) -> Iterable[bytes]:
        """Frames with the last message about each channel of a wish."""
        last = self._last
        channels: Iterable[int] = last if wish.all_channels else [each for each in wish.channel_ids if each in last]
        # A row is the last message about several channels, and is sent once.
        return frames.of_items(dict.fromkeys(last[channel] for channel in channels))

    def prime(self, messages: Mapping[int, bytes]) -> None:
        """Take messages from before everything that is known."""
        self._last = {**messages, **self._last}

    def _remember(self, bursts: Sequence[LiveBurst], ring_max_bytes: int) -> None:
        for burst in bursts:
            burst.forget_index()
            self._ring.append(burst)
            self._ring_bytes += len(burst)
        while self._ring and self._ring_bytes > ring_max_bytes:
            self._forget_until(self._ring[0].entry_id)
        self._bursts += len(bursts)
        if self._bursts >= CHECKED_BURSTS:
            self._bursts = 0
            if sum(map(len, self._last.values())) > LAST_MESSAGES_MAX_BYTES:
                self._last = {
                    channel: message
                    for channel, message in self._last.items()
                    if len(message) <= LAST_MESSAGE_SHORT_BYTES
                }

    def _forget_until(self, entry_id: str) -> None:
        """Keep only what is behind an id in memory."""
        while self._ring and not entry_ids.is_after(self._ring[0].entry_id, entry_id):
            self._ring_bytes -= len(self._ring.popleft())
        while self._missed and not entry_ids.is_after(self._missed[0].until, entry_id):
            self._missed.popleft()
        self.ring_start = max(self.ring_start, entry_id, key=entry_ids.parse)
