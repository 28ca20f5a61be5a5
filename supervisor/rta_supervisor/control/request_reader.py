"""Reads requests of all principals as there is room for each: a flood of one fills its own room and nobody else's.

Knows which entries are in hand, from reading until they are acknowledged, so that none is served twice.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import anyio
import msgspec

from rta_supervisor.control.control_streams import ControlStreams
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.diagnostics import principal_limits
from rta_supervisor.nodes import leases
from rta_supervisor.settings import settings
from rta_wire import entry_ids, limits
from rta_wire.control import messages

READ_MAX: Final = 200
"""Entries of one principal in one read: decoding more would keep requests waiting that are being served."""

IN_HAND_MAX_BYTES: Final = 16 * limits.MIB
"""Beyond that nothing more is read of a principal until some of its requests are served."""

BLOCK_FULL_MS: Final = 20
"""How long a read waits while a principal has no room for more: there is some by then."""


class RequestReader:
    """Reads the control streams of requests, the pending entries of each before its new ones."""

    def __init__(self, streams: ControlStreams, config: settings.Settings, count_waiting: Callable[[str], int]) -> None:
        """`count_waiting`: how many requests of a principal wait for something. They take no room."""
        self._streams = streams
        self._config = config
        self._count_waiting = count_waiting
        self._in_hand: dict[str, dict[str, int]] = {key: {} for key in streams.principals}
        """Ids and sizes of entries by control stream that were read, from then until they are acknowledged."""
        self._bytes = dict.fromkeys(streams.principals, 0)
        self._pending_after = dict.fromkeys(streams.principals, entry_ids.MIN)
        """Control streams whose pending entries are being read, with the id to read on from. Nothing new is read from
        them until that is done: a session's requests stay in order."""
        self._backlog = dict.fromkeys(streams.principals, 0)
        """Entries that were read of each control stream without coming to the end of it."""
        self._next_claim_s = self._next_takeover_s = 0.0

    def __len__(self) -> int:
        """How many entries are in hand."""
        return sum(map(len, self._in_hand.values()))

    def release(self, entries: Iterable[ControlEntry]) -> None:
        """Note that entries are acknowledged."""
        for entry in entries:
            self._bytes[entry.key] -= self._in_hand[entry.key].pop(entry.id, 0)

    def shrink(self, entry: ControlEntry, message: messages.Message) -> ControlEntry:
        """An entry that is kept for long, with nothing in its message that nobody reads."""
        message.DiscardUnknownFields()
        small = msgspec.structs.replace(entry, raw=messages.pack(message))
        self.release([entry])
        self._hold(small)
        return small

    def _hold(self, entry: ControlEntry) -> None:
        self._in_hand[entry.key][entry.id] = entry.size
        self._bytes[entry.key] += entry.size

    def start_again(self) -> None:
        """Forget what is in hand: it is pending, and is read again."""
        for key, ids in self._in_hand.items():
            ids.clear()
            self._bytes[key] = 0
        self._reread(self._streams.principals)

    async def claim(self) -> None:
        """Claim what others left, if it is time to look for it."""
        if anyio.current_time() >= self._next_claim_s:
            self._reread(await self._streams.takeover.claim_idle(self._is_in_hand))
            await self._streams.report_gaps()
            self._next_claim_s = anyio.current_time() + self._config.control.retry_s
        if anyio.current_time() >= self._next_takeover_s:
            self._reread(await self._streams.takeover.claim_from_dead())
            self._next_takeover_s = anyio.current_time() + self._config.node.lease_s / leases.LOOKS_PER_LEASE

    async def read(self) -> list[ControlEntry]:
        """Some entries of each principal that has room, which are in hand from now on. Waits for a moment where there
        are none."""
        pending = await self._read_pending()
        entries = [*pending, *await self._read_new(is_waiting=not pending)]
        for entry in entries:
            self._hold(entry)
        return entries

    def _is_in_hand(self, key: str, entry_id: str) -> bool:
        return entry_id in self._in_hand[key]

    def _reread(self, stream_keys: Iterable[str]) -> None:
        """Read the pending entries of control streams from the beginning: there are some that we don't know."""
        self._pending_after |= dict.fromkeys(stream_keys, entry_ids.MIN)

    def _room(self, key: str) -> int:
        """How many more entries of a control stream may be in hand. Those that wait are not counted."""
        limit = min(self._config.limits.requests_in_hand, self._config.control.max_unacknowledged)
        in_hand = len(self._in_hand[key]) - self._count_waiting(self._streams.principals[key])
        room = limit - in_hand
        if in_hand > 0 and self._bytes[key] >= IN_HAND_MAX_BYTES:
            return 0
        # A little room is none: many small reads cost more than a few.
        return room if room > min(limit, READ_MAX) // 2 or in_hand <= 0 else 0

    def _with_room(self, stream_keys: Iterable[str]) -> tuple[list[str], int]:
        """Those of some control streams that have room, and how many entries may be read of each."""
        rooms = {key: room for key in stream_keys if (room := self._room(key)) > 0}
        return list(rooms), self._streams.fitting(rooms, min([READ_MAX, *rooms.values()]))

    async def _read_pending(self) -> list[ControlEntry]:
        """Some entries that we or a dead supervisor read and did not acknowledge, and that are not in hand."""
        stream_keys, count = self._with_room(self._pending_after)
        if not stream_keys:
            return []
        entries = await self._streams.read_pending({key: self._pending_after[key] for key in stream_keys}, count=count)
        by_key: dict[str, list[str]] = {key: [] for key in stream_keys}
        for entry in entries:
            by_key[entry.key].append(entry.id)
        for key, ids in by_key.items():
            if len(ids) < count:
                del self._pending_after[key]
            else:
                self._pending_after[key] = ids[-1]
        return [entry for entry in entries if entry.id not in self._in_hand[entry.key]]

    async def _read_new(self, *, is_waiting: bool) -> list[ControlEntry]:
        """Some new entries of each principal that has room. `is_waiting`: waits for a moment where there are none."""
        readable = [key for key in self._streams.principals if key not in self._pending_after]
        stream_keys, count = self._with_room(readable)
        if not stream_keys:
            await anyio.sleep(BLOCK_FULL_MS / 1000 if is_waiting else 0)
            return []
        is_all = len(stream_keys) == len(self._streams.principals)
        block_ms = self._streams.block_ms if is_all else BLOCK_FULL_MS
        entries = await self._streams.read_new(stream_keys, count=count, block_ms=block_ms if is_waiting else None)
        self._note_backlog(stream_keys, entries, count)
        return entries

    def _note_backlog(self, stream_keys: Iterable[str], entries: Iterable[ControlEntry], count: int) -> None:
        """Note principals that sent more than they may have in hand, once until all of that is read."""
        limit = self._config.limits.requests_in_hand
        counts = Counter(entry.key for entry in entries)
        for key in stream_keys:
            before = self._backlog[key]
            self._backlog[key] = before + counts[key] if counts[key] >= count else 0
            if before < limit <= self._backlog[key]:
                principal_limits.note_reached(self._streams.principals[key], "requests_in_hand")
