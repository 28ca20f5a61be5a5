"""Follows a session's entries in its stream and makes of them what a plot shows. Bounded in what it reads and keeps."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
import numpy as np

from rta_supervisor.compaction.reader import ColdReader
from rta_supervisor.http import sse
from rta_supervisor.session.model import SessionRef
from rta_supervisor.transport import paging
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.transport.link import Link
from rta_supervisor.web.live.envelope import CHANNELS_MAX, Envelope
from rta_wire import entry_ids, errors, keys
from rta_wire.codec import decode, layout
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_wire.stream import live_then_cold

EVERY_S: Final = 0.5
QUIET_S: Final = 10.0
"""After so long without news a sign of life goes out."""

PAGE: Final = 32
PAGE_BYTES: Final = 2 * 1024 * 1024
"""What one reply of Redis may hold, about: pages get longer where entries are small."""

BACK_MAX_ENTRIES: Final = 4096
BACK_MAX_BYTES: Final = 32 * 1024 * 1024
BACK_SLACK_MS: Final = 10_000
"""Samples that are this much late still count as of the time at which they came."""

LISTED_CHANNELS_MAX: Final = 2000
"""Channels that can be chosen from."""

CHOSEN_AT_FIRST: Final = 3
STEPS_MIN, STEPS_MAX = 50, 1200
WINDOW_MIN_S, WINDOW_MAX_S = 1.0, 3600.0
NS: Final = 10**9

_decoding = anyio.CapacityLimiter(1)
"""One plot is decoded at a time, whoever watches: sessions come first."""


class PlotRequest(msgspec.Struct, frozen=True):
    """What a page wants to see."""

    channels: tuple[int, ...]
    steps: int
    window_s: float
    type: layout.SampleType

    @classmethod
    def parse(cls, query: dict[str, str]) -> "PlotRequest":
        try:
            channels = tuple(int(word) for word in query.get("channels", "").split(",") if word)
            steps, window_s = int(query.get("steps", "600")), float(query.get("window_s", "60"))
            type_ = layout.SampleType(query.get("type", "double"))
        except ValueError as error:
            raise errors.Usage(reason=f"The plot can't be made: {error}") from error
        if len(channels) > CHANNELS_MAX:
            raise errors.Usage(reason=f"A plot has {CHANNELS_MAX} channels at most.")
        if not WINDOW_MIN_S <= window_s <= WINDOW_MAX_S:
            raise errors.Usage(reason=f"A plot covers {WINDOW_MIN_S:g} to {WINDOW_MAX_S:g} s.")
        return cls(channels, min(max(steps, STEPS_MIN), STEPS_MAX), window_s, type_)


class Plot:
    """One plot that somebody watches."""

    def __init__(self, link: Link, names: keys.Keys, ref: SessionRef, request: PlotRequest) -> None:
        self._link = link
        self._stream = keys.stream(ref.stream)
        self._cold = ColdReader(link, names, ref.stream)
        self._number = str(ref.stream_session_id).encode()
        self._request = request
        self._layouts = layout.Plan(default=layout.Layout(type=request.type))
        self._envelope = Envelope(request.steps, max(1, int(request.window_s * NS / request.steps)))
        self._chosen = set(request.channels)
        self._seen_channels: set[int] = set()
        self._after = ""
        self._bad = 0
        self._skipped = 0

    async def events(self, closing: anyio.Event) -> AsyncIterator[bytes]:
        """Until the server ends."""
        quiet_s = 0.0
        first = True
        while not closing.is_set():
            try:
                named = len(self._seen_channels)
                await self._read()
                told = self._update(is_first=first, has_more_names=len(self._seen_channels) > named)
                first = False
            except (*RETRIABLE_ERRORS, errors.BadBatch) as error:
                told = {"problem": str(error) or "Redis does not answer"}
            if told or quiet_s >= QUIET_S:
                quiet_s = 0.0
                yield sse.format_event(msgspec.json.encode(told))
            quiet_s += EVERY_S
            with anyio.move_on_after(EVERY_S):
                await closing.wait()

    def _update(self, *, is_first: bool, has_more_names: bool) -> dict[str, Any]:
        told: dict[str, Any] = {}
        if news := self._envelope.changed_steps():
            told |= {"last": self._envelope.last, "tracks": news}
        if is_first:
            told |= {"stepMs": self._envelope.step_ns / 1e6, "steps": self._envelope.steps, "tracks": news}
        if is_first or has_more_names:
            told |= {"named": sorted(self._seen_channels)[:LISTED_CHANNELS_MAX], "chosen": sorted(self._chosen)}
        if self._bad or self._skipped:
            told |= {"undecodable": self._bad, "skipped": self._skipped}
        return told

    async def _read(self) -> None:
        """Adds the entries since the last read to the plot, at first those of the whole window. Reads newest first, and
        stops at its limits."""
        bursts: list[bytes] = []
        entry_count = size = 0
        newest_id = ""
        earliest_ms = 0
        async for page in self._pages():
            if entry_count >= BACK_MAX_ENTRIES or size >= BACK_MAX_BYTES:
                self._skipped += bool(self._after)
                break
            newest_id = newest_id or page[0].id
            mine = [entry for entry in page if self._is_mine(entry.fields)]
            bursts += [entry.fields[3] for entry in mine]
            if mine and not earliest_ms:
                earliest_ms = entry_ids.ms_of(mine[0].id) - int(self._request.window_s * 1000) - BACK_SLACK_MS
            entry_count += len(page)
            size += _size(page)
            if entry_ids.ms_of(page[-1].id) < earliest_ms:
                break
        self._after = newest_id or self._after
        if bursts:
            # Oldest first: the window ends where the latest sample is.
            await anyio.to_thread.run_sync(self._take, bursts[::-1], limiter=_decoding)

    async def _pages(self) -> AsyncIterator[list[RawEntry]]:
        """Entries since the last read, newest first: live ones, then what is cold below them."""
        read = live_then_cold.BackwardRead(self._after or entry_ids.MIN)
        count = PAGE
        entry_count = size = 0
        while True:
            reply = await self._link.do("XREVRANGE", self._stream, *read.live_range, "COUNT", count)
            page = [RawEntry(raw_id.decode(), tuple(fields)) for raw_id, fields in reply]
            if page:
                yield page
                read.take_live(page[-1].id)
            if len(page) < count:
                break
            entry_count += len(page)
            size += _size(page)
            count = min(max(PAGE_BYTES * entry_count // max(size, 1), 1), PAGE * 16)
        async for page in self._cold.pages_backwards(read):
            yield page

    def _is_mine(self, fields: Sequence[bytes]) -> bool:
        is_entry = len(fields) == 4 and fields[0] == keys.ENTRY_ID and fields[2] == keys.ENTRY_DATA
        return is_entry and fields[1] == self._number

    def _take(self, bursts: Sequence[bytes]) -> None:
        for page in paging.pages(bursts, PAGE):
            for columns in self._decoded(page):
                self._add(columns)

    def _decoded(self, bursts: Sequence[bytes]) -> list[decode.SampleColumns]:
        try:
            return list(decode.columns(bursts, self._layouts).samples.values())
        except errors.BadBurst:
            if len(bursts) == 1:
                self._bad += 1
                return []
        return [columns for burst in bursts for columns in self._decoded([burst])]

    def _add(self, columns: decode.SampleColumns) -> None:
        if len(self._seen_channels) < LISTED_CHANNELS_MAX:
            self._seen_channels |= set(np.unique(columns.channels).tolist())
        if not self._chosen:
            self._chosen = set(sorted(self._seen_channels)[:CHOSEN_AT_FIRST])
        wanted = np.isin(columns.channels, list(self._chosen))
        for run in np.flatnonzero(wanted).tolist():
            part = slice(int(columns.offsets[run]), int(columns.offsets[run + 1]))
            self._envelope.add(int(columns.channels[run]), columns.times_ns[part], columns.values[part])


def _size(page: Sequence[RawEntry]) -> int:
    """Bytes of the bursts of some entries, about: those of their last fields."""
    return sum(len(entry.fields[-1]) for entry in page)
