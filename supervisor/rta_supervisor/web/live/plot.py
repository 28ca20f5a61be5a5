"""A plot of channels of one session, or of all sessions of a source over its days: reads entries as they are added,
decodes them, and sends what changed in the envelope. Bounded in what it reads and keeps.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
import numpy as np

from rta_supervisor.compaction.reader import ColdReader
from rta_supervisor.http import sse
from rta_supervisor.observe.queries import RedisQueries
from rta_supervisor.session.model import SessionRef
from rta_supervisor.settings import settings
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
"""After so long without a change an empty event is sent: it shows that the connection still works."""

PAGE: Final = 32
PAGE_BYTES: Final = 2 * 1024 * 1024
"""About the most that one reply of Redis holds: pages get longer if entries are small."""

READ_MAX_ENTRIES: Final = 4096
READ_MAX_BYTES: Final = 32 * 1024 * 1024
"""One read stops at either: what is older is not shown."""

LATENESS_MS: Final = 10_000
"""How much later than its samples an entry may be added: entries are read that much further back than the window."""

LISTED_CHANNELS_MAX: Final = 2000
"""Channels that a page can choose from."""

DEFAULT_CHANNELS: Final = 3
"""How many channels are shown if the request names none."""

STEPS_MIN, STEPS_MAX = 50, 1200
WINDOW_MIN_S, WINDOW_MAX_S = 1.0, 3600.0
NS_PER_S: Final = 10**9

_decode_limiter = anyio.CapacityLimiter(1)
"""Plots are decoded one at a time, so that most of the processors are left for sessions."""


class PlotRequest(msgspec.Struct, frozen=True):
    """What a plot shows: which channels, in how many steps, over how long a time; and the type of their samples."""

    channels: tuple[int, ...]
    steps: int
    window_s: float
    type: layout.SampleType

    @classmethod
    def parse(cls, query: dict[str, str]) -> "PlotRequest":
        """The request in the query of an address. Raises `errors.Usage` if it can't be served."""
        try:
            channels = tuple(int(number) for number in query.get("channels", "").split(",") if number)
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
    """One plot that one page shows, of one session."""

    def __init__(self, link: Link, names: keys.Keys, ref: SessionRef | None, request: PlotRequest) -> None:
        """`ref`: None for a plot of all sessions."""
        self._link = link
        self._keys = names
        self._ref = ref
        self._request = request
        self._layouts = layout.Plan(default=layout.Layout(type=request.type))
        self._envelope = Envelope(request.steps, max(1, int(request.window_s * NS_PER_S / request.steps)))
        self._chosen_channels = set(request.channels)
        self._seen_channels: set[int] = set()
        self._last_ids: dict[str, str] = {}
        """The last entry that was read of each stream."""
        self._undecodable = 0
        self._skipped = 0

    async def events(self, closing: anyio.Event) -> AsyncIterator[bytes]:
        """Server-sent events with what changed in the plot, until the server ends."""
        quiet_s = 0.0
        is_first = True
        while not closing.is_set():
            try:
                channel_count = len(self._seen_channels)
                await self._read()
                update = self._update(is_first=is_first, has_new_channels=len(self._seen_channels) > channel_count)
                is_first = False
            except (*RETRIABLE_ERRORS, errors.BadBatch) as error:
                update = {"problem": str(error) or "Redis does not answer"}
            if update or quiet_s >= QUIET_S:
                quiet_s = 0.0
                yield sse.format_event(msgspec.json.encode(update))
            quiet_s += EVERY_S
            with anyio.move_on_after(EVERY_S):
                await closing.wait()

    def _update(self, *, is_first: bool, has_new_channels: bool) -> dict[str, Any]:
        update: dict[str, Any] = {}
        if steps := self._envelope.changed_steps():
            update |= {"last": self._envelope.last, "tracks": steps}
        if is_first:
            update |= {"stepMs": self._envelope.step_ns / 1e6, "steps": self._envelope.steps, "tracks": steps}
        if is_first or has_new_channels:
            listed = sorted(self._seen_channels)[:LISTED_CHANNELS_MAX]
            update |= {"named": listed, "chosen": sorted(self._chosen_channels)}
        if self._undecodable or self._skipped:
            update |= {"undecodable": self._undecodable, "skipped": self._skipped}
        return update

    async def _streams(self) -> list[str]:
        """The streams of which the plot shows entries, the newest first."""
        return [] if self._ref is None else [self._ref.stream]

    async def _read(self) -> None:
        """Adds the entries since the last read to the plot, at first those of the whole window. Reads newest first, and
        stops at its limits."""
        bursts: list[bytes] = []
        entry_count = size = 0
        earliest_ms = 0
        last_ids: dict[str, str] = {}
        for stream in await self._streams():
            last_ids[stream] = self._last_ids.get(stream, "")
            newest_id = ""
            async for page in self._pages(stream):
                if entry_count >= READ_MAX_ENTRIES or size >= READ_MAX_BYTES:
                    self._skipped += bool(last_ids[stream])
                    break
                newest_id = newest_id or page[0].id
                if entry_ids.ms_of(page[0].id) < earliest_ms:
                    break
                wanted = [entry for entry in page if self._is_wanted(entry.fields)]
                bursts += [entry.fields[3] for entry in wanted]
                if wanted and not earliest_ms:
                    window_ms = int(self._request.window_s * 1000)
                    earliest_ms = entry_ids.ms_of(wanted[0].id) - window_ms - LATENESS_MS
                entry_count += len(page)
                size += _size(page)
                if entry_ids.ms_of(page[-1].id) < earliest_ms:
                    break
            last_ids[stream] = newest_id or last_ids[stream]
        self._last_ids = last_ids
        if bursts:
            # Oldest first: the window ends where the latest sample is.
            await anyio.to_thread.run_sync(self._add_bursts, bursts[::-1], limiter=_decode_limiter)

    async def _pages(self, stream: str) -> AsyncIterator[list[RawEntry]]:
        """Entries of a stream since the last read, newest first: live ones, then what is cold below them."""
        read = live_then_cold.BackwardRead(self._last_ids.get(stream) or entry_ids.MIN)
        count = PAGE
        entry_count = size = 0
        while True:
            reply = await self._link.do("XREVRANGE", keys.stream(stream), *read.live_range, "COUNT", count)
            page = [RawEntry(raw_id.decode(), tuple(fields)) for raw_id, fields in reply]
            if page:
                yield page
                read.take_live(page[-1].id)
            if len(page) < count:
                break
            entry_count += len(page)
            size += _size(page)
            count = min(max(PAGE_BYTES * entry_count // max(size, 1), 1), PAGE * 16)
        async for page in ColdReader(self._link, self._keys, stream).pages_backwards(read):
            yield page

    def _is_wanted(self, fields: Sequence[bytes]) -> bool:
        is_burst = len(fields) == 4 and fields[0] == keys.ENTRY_ID and fields[2] == keys.ENTRY_DATA
        return is_burst and (self._ref is None or fields[1] == str(self._ref.stream_session_id).encode())

    def _add_bursts(self, bursts: Sequence[bytes]) -> None:
        for page in paging.pages(bursts, PAGE):
            for columns in self._decode(page):
                self._add_columns(columns)

    def _decode(self, bursts: Sequence[bytes]) -> list[decode.SampleColumns]:
        """Columns of bursts. Those that can't be decoded are counted and left out."""
        try:
            return list(decode.columns(bursts, self._layouts).samples.values())
        except errors.BadBurst:
            if len(bursts) == 1:
                self._undecodable += 1
                return []
        return [columns for burst in bursts for columns in self._decode([burst])]

    def _add_columns(self, columns: decode.SampleColumns) -> None:
        if len(self._seen_channels) < LISTED_CHANNELS_MAX:
            self._seen_channels |= set(np.unique(columns.channels).tolist())
        if not self._chosen_channels:
            self._chosen_channels = set(sorted(self._seen_channels)[:DEFAULT_CHANNELS])
        is_chosen = np.isin(columns.channels, list(self._chosen_channels))
        for run in np.flatnonzero(is_chosen).tolist():
            part = slice(int(columns.offsets[run]), int(columns.offsets[run + 1]))
            self._envelope.add(int(columns.channels[run]), columns.times_ns[part], columns.values[part])


class SourcePlot(Plot):
    """A plot of all sessions of a stream, or of a source over its days."""

    def __init__(self, link: Link, config: settings.Settings, source: str, request: PlotRequest) -> None:
        super().__init__(link, config.keys, None, request)
        self._queries = RedisQueries(link, config)
        self._source = source

    async def _streams(self) -> list[str]:
        """Looked up for each read: days begin and are removed while a page is open."""
        return list(reversed(await self._queries.streams_of(self._source)))


def _size(page: Sequence[RawEntry]) -> int:
    """About how many bytes the entries have: those of their last fields, which hold the bursts."""
    return sum(len(entry.fields[-1]) for entry in page)
