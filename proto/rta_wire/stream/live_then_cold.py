"""The one rule for reading a stream of which the older part may be cold: which entries come next, and what was lost.

The compactor copies entries to the cold stream, then says so in the index, and only then removes them from the live
stream. A reader that reads the live stream first and the index after it finds every entry in at least one of the two,
and gets each once by taking those that the index calls cold from the cold stream. `ForwardRead` and `BackwardRead`
decide what to read next; the caller does the reading.
"""

from collections.abc import Mapping, Sequence

import msgspec

from rta_wire import entry_ids
from rta_wire.stream import cold_index, cursor

Batch = tuple[str, bytes]
"""A batch as it stands in the cold stream: its id, which is that of its last entry, and its bytes."""


class ForwardRead:
    """Decides whether the entries right after an id are read from the cold stream or live.

    The caller has read the live stream before, and then reads what it is asked for:

        read = ForwardRead(after)
        while (id_range := read.take_index(read_index())) is not None:
            read.take_batch(read_first_batch(*id_range))

    The index is read again after each batch: old batches may be removed at any moment, and the index says so before
    they are.
    """

    def __init__(self, after: str, until: str = entry_ids.MAX) -> None:
        self.extent: cold_index.ColdExtent | None = None
        """What the index said last."""
        self.batch: Batch | None = None
        """The batch with the next entries. None where they are live, or are missing from the cold stream."""
        self._after = after
        self._until = until
        self._batches_after: str | None = None

    def take_index(self, extent: cold_index.ColdExtent | None) -> tuple[str, str] | None:
        """Takes what the index says now. Gives the range of ids in which the caller reads the first batch: after the
        first id, up to and with the second. None where nothing more has to be read."""
        if self._batches_after is not None and extent == self.extent:
            return None
        self.extent, self.batch, self._batches_after = extent, None, None
        if extent is None or not extent.is_ahead_of(self._after) or not entry_ids.is_after(self._until, self._after):
            return None
        # A batch before the first id of the index is about to be removed, and counts as removed already.
        self._batches_after = max(self._after, entry_ids.previous_id(extent.first_id), key=entry_ids.parse)
        return self._batches_after, extent.last_id

    def take_batch(self, batch: Batch | None) -> None:
        """Takes the first batch of the range that `take_index` gave, None where there is none."""
        self.batch = batch

    @property
    def entry_range(self) -> tuple[str, str]:
        """Which entries of the batch to take: those after the first id, up to and with the second. A batch that is not
        in the index yet may go further than the index."""
        assert self.extent is not None
        return self._after, min(self.extent.last_id, self._until, key=entry_ids.parse)

    @property
    def is_last_batch(self) -> bool:
        """Whether the batch goes up to the last id that was asked for."""
        return self.batch is not None and not entry_ids.is_after(self._until, self.batch[0])

    def live_page(self, live: cursor.StreamPage) -> cursor.StreamPage:
        """The live page, for a cursor. Entries that are cold were moved and not lost."""
        if self.extent is None or self.extent.is_ahead_of(self._after):
            return live
        return live._replace(added_before=self.extent.added)

    def cold_page(self, entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]]) -> cursor.StreamPage:
        """Entries of the batch with the counters of the cold part, for a cursor. Its next step reads what follows."""
        extent = self.extent
        assert extent is not None
        return cursor.StreamPage(
            entries, extent.added, extent.entries, extent.first_id, extent.last_id, is_complete=False
        )


class BackwardRead:
    """Walks from the newest entry back to an id: through the live stream, then through what is cold below it.

    The caller reads pages of the live stream until one is not full, then the index, then batches:

        read = BackwardRead(after)
        while page := read_live_backwards(*read.live_range):
            read.take_live(page[-1].id)
        upper = read.take_index(read_index())
        while upper is not None and (batch := read_last_batch(upper)) is not None:
            upper = read.take_batch(batch)
    """

    def __init__(self, after: str = entry_ids.MIN) -> None:
        self._after = after
        self._lowest_live: str | None = None
        self._cold_last_id = entry_ids.MIN

    @property
    def live_range(self) -> tuple[str, str]:
        """The bounds of the next page as XREVRANGE takes them, the upper one first."""
        return ("+" if self._lowest_live is None else f"({self._lowest_live}"), f"({self._after}"

    def take_live(self, lowest_id: str) -> None:
        """Takes the lowest id of a page."""
        self._lowest_live = lowest_id

    def take_index(self, extent: cold_index.ColdExtent | None) -> str | None:
        """Takes what the index says after the live stream was read. Gives the highest id of the batch to read next,
        None where nothing that is wanted is cold."""
        if extent is None or not extent.is_ahead_of(self._after):
            return None
        self._cold_last_id = extent.last_id
        return extent.last_id

    def take_batch(self, batch: Batch) -> str | None:
        """Takes a batch. Gives the upper bound of the batch before it, None where no older one is wanted."""
        batch_id, _ = batch
        return f"({batch_id}" if entry_ids.is_after(batch_id, self._after) else None

    @property
    def entry_range(self) -> tuple[str, str]:
        """Which entries of a batch to take: those after the first id, up to and with the second, except those that
        `was_live`."""
        return self._after, self._cold_last_id

    def was_live(self, entry_id: str) -> bool:
        """Whether an entry of a batch has been read from the live stream already."""
        return self._lowest_live is not None and not entry_ids.is_after(self._lowest_live, entry_id)


class StreamCounters(msgspec.Struct, frozen=True):
    """Ids and numbers of entries of a stream at one moment, its live and its cold part together."""

    first_id: str | None = None
    last_id: str = entry_ids.MIN
    added: int = 0
    length: int = 0
    live_first_id: str | None = None
    cold_id: str = entry_ids.MIN
    """The last id of the cold part."""
    cold_added: int = 0
    """Entries that were ever added up to `cold_id`."""
    gap_entries: int = 0
    """Entries that are gone between the cold part and the live one: only known while the cold part is not trimmed."""

    @property
    def removed(self) -> int:
        """Entries that are gone: from the front, and between the cold part and the live one."""
        return self.added - self.length

    def first_after(self, position: str) -> str | None:
        """The first id of the part in which a reader at `position` goes on: of the cold part, or of the live one."""
        return self.first_id if entry_ids.is_after(self.cold_id, position) else self.live_first_id

    def removed_after(self, added: int) -> int:
        """How many entries are gone that were added after the first `added` entries of the stream."""
        if added >= self.cold_added:
            last_removed = self.gap_entries + self.cold_added if self.cold_added else self.removed
            return max(0, last_removed - added)
        return max(0, self.removed - self.gap_entries - added) + self.gap_entries

    def missing_after(self, position: str, added: int) -> int:
        """How many entries are gone after an entry up to which `added` entries had been added to the stream."""
        begins_behind = self.first_id is None or entry_ids.is_after(self.first_id, position)
        if begins_behind and self.removed < added:
            # As many as that should be gone: the stream was lost since then, and its count began again.
            return self.removed
        return self.removed_after(added)


def combine_counters(live: cursor.StreamPage | None, extent: cold_index.ColdExtent | None) -> StreamCounters:
    """Counters of the whole stream from those of the live one, None where there is none, and from what the index said
    after that."""
    if extent is None:
        if live is None:
            return StreamCounters()
        return StreamCounters(live.first_id, live.last_id, live.entries_added, live.length, live.first_id)
    if live is None or live.entries_added < extent.added:
        # The live stream was lost, and perhaps made anew: its count began again.
        live_length = live.length if live is not None else 0
        last_id = extent.last_id if live is None or extent.is_ahead_of(live.last_id) else live.last_id
        added, length, gap_entries = extent.added + live_length, extent.entries + live_length, 0
    else:
        # Entries that are cold already may still stand in the live stream: they count once.
        above = min(live.length, live.entries_added - extent.added)
        gap_entries = max(0, live.entries_added - live.length - extent.added)
        added, length, last_id = live.entries_added, extent.entries + above, live.last_id
    first_id = live.first_id if live is not None else None
    return StreamCounters(extent.first_id, last_id, added, length, first_id, extent.last_id, extent.added, gap_entries)
