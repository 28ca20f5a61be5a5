"""A model of a stream that is compacted while it is read: live entries, batches and the index, and readers of them."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from rta_wire import entry_ids
from rta_wire.stream import cold_index, cursor, live_then_cold

PAUSE = ("pause", 0)


class Entry(NamedTuple):
    """An entry of the model."""

    id: str

    @property
    def parsed(self) -> tuple[bytes, Mapping[bytes, bytes]]:
        return self.id.encode(), {b"id": b"7", b"data": b""}


class CompactedStream:
    """A stream, its cold part and the index, as Redis keeps them. Before each read a part of the script is carried out,
    in the order in which compaction takes its steps."""

    def __init__(self, script: list[tuple[str, int]]) -> None:
        self.live: list[Entry] = []
        self.batches: list[tuple[str, list[Entry]]] = []
        self.extent: cold_index.ColdExtent | None = None
        self.added = 0
        self._unpacked: dict[str, list[Entry]] = {}
        self._script = iter(script)
        self._steps: list[Callable[[], None]] = []

    def happen(self) -> None:
        """What the script says up to its next pause."""
        while (action := next(self._script, PAUSE)) != PAUSE:
            self._act(*action)
            self._unpacked.update(self.batches)

    def _act(self, what: str, count: int) -> None:
        """Adds entries, or takes one step of a move or a removal: of the one that has begun, if it is not done."""
        if what == "add":
            self.live += [Entry(entry_ids.format_id(self.added + n)) for n in range(1, count + 1)]
            self.added += count
            return
        if not self._steps and what == "move" and self.movable:
            self._steps = self._move(self.movable[:count])
        elif not self._steps and what == "remove" and self.batches:
            self._steps = self._remove_oldest()
        if self._steps:
            self._steps.pop(0)()

    @property
    def movable(self) -> list[Entry]:
        """Live entries that are not cold."""
        extent = self.extent
        return [entry for entry in self.live if extent is None or not self._is_cold(entry, extent)]

    def _is_cold(self, entry: Entry, extent: cold_index.ColdExtent) -> bool:
        return not entry_ids.is_after(entry.id, extent.last_id)

    def _move(self, entries: list[Entry]) -> list[Callable[[], None]]:
        last_id = entries[-1].id
        old = self.extent
        new = cold_index.ColdExtent(
            first_id=entries[0].id if old is None else old.first_id,
            last_id=last_id,
            entries=len(entries) + (0 if old is None else old.entries),
            batches=1 + (0 if old is None else old.batches),
            added=entry_ids.ms_of(last_id),
            **dict.fromkeys(("size_bytes", "live_bytes", "raw_bytes", "number", "noted_ms"), 0),
        )

        def set_index() -> None:
            self.extent = new

        def trim_live() -> None:
            self.live = [entry for entry in self.live if not self._is_cold(entry, new)]

        return [lambda: self.batches.append((last_id, entries)), set_index, trim_live]

    def _remove_oldest(self) -> list[Callable[[], None]]:
        entries = self.batches[0][1]

        def set_index() -> None:
            assert self.extent is not None
            self.extent = (
                msgspec.structs.replace(
                    self.extent,
                    first_id=self.batches[1][1][0].id,
                    entries=self.extent.entries - len(entries),
                    batches=self.extent.batches - 1,
                )
                if len(self.batches) > 1
                else None
            )

        def remove_batch() -> None:
            self.batches.pop(0)

        return [set_index, remove_batch]

    def read_live(self, after: str, count: int = 3) -> cursor.StreamPage:
        self.happen()
        entries = [entry.parsed for entry in self.live if entry_ids.is_after(entry.id, after)][:count]
        first_id = self.live[0].id if self.live else None
        last_id = entry_ids.format_id(self.added)
        return cursor.StreamPage(entries, self.added, len(self.live), first_id, last_id, len(entries) < count)

    def read_index(self) -> cold_index.ColdExtent | None:
        self.happen()
        return self.extent

    def read_batch(self, after: str, until: str) -> live_then_cold.Batch | None:
        self.happen()
        for batch_id, _ in self.batches:
            if entry_ids.is_after(batch_id, after) and not entry_ids.is_after(batch_id, until):
                return batch_id, batch_id.encode()
        return None

    def read_live_backwards(self, upper: str, lower: str, count: int = 3) -> list[Entry]:
        self.happen()
        return [entry for entry in self.live[::-1] if _is_within(entry.id, upper, lower)][:count]

    def read_last_batch(self, upper: str) -> live_then_cold.Batch | None:
        self.happen()
        for batch_id, _ in self.batches[::-1]:
            if _is_within(batch_id, upper, f"({entry_ids.MIN}"):
                return batch_id, batch_id.encode()
        return None

    def next_page(self, after: str) -> cursor.StreamPage:
        """The next page as tail reads it."""
        live = self.read_live(after)
        read = live_then_cold.ForwardRead(after)
        while (id_range := read.take_index(self.read_index())) is not None:
            read.take_batch(self.read_batch(*id_range))
        if read.batch is None:
            return read.live_page(live)
        return read.cold_page([entry.parsed for entry in self._unpack(read.batch, read.entry_range)])

    def read_range(self, after: str, until: str, count: int = 3) -> Iterator[str]:
        """Ids between two ids, as the writers read them."""
        while True:
            live = self.read_live(after, count)
            read = live_then_cold.ForwardRead(after, until)
            while (id_range := read.take_index(self.read_index())) is not None:
                read.take_batch(self.read_batch(*id_range))
            if read.batch is None:
                ids = [raw.decode() for raw, _ in live.entries if not entry_ids.is_after(raw.decode(), until)]
                is_last = len(ids) < count
            else:
                ids = [entry.id for entry in self._unpack(read.batch, read.entry_range)]
                is_last = read.is_last_batch
            yield from ids
            if is_last:
                return
            after = ids[-1]

    def read_backwards(self, after: str, count: int = 3) -> Iterator[str]:
        """Ids above an id, newest first, as `tail --last` reads them."""
        read = live_then_cold.BackwardRead(after)
        while page := self.read_live_backwards(*read.live_range, count):
            yield from (entry.id for entry in page)
            read.take_live(page[-1].id)
            if len(page) < count:
                break
        upper = read.take_index(self.read_index())
        while upper is not None and (batch := self.read_last_batch(upper)) is not None:
            upper = read.take_batch(batch)
            entries = self._unpack(batch, read.entry_range)
            yield from (entry.id for entry in reversed(entries) if not read.was_live(entry.id))

    def _unpack(self, batch: live_then_cold.Batch, bounds: tuple[str, str]) -> list[Entry]:
        """Entries of a batch after one id and up to another. Its bytes are its id; what a batch held is known even when
        it has been removed since it was read."""
        after, until = map(entry_ids.parse, bounds)
        return [entry for entry in self._unpacked[batch[1].decode()] if after < entry_ids.parse(entry.id) <= until]


def _is_within(entry_id: str, upper: str, lower: str) -> bool:
    """Whether XREVRANGE gives an entry."""
    highest = entry_ids.MAX if upper == "+" else upper
    below = entry_ids.previous_id(highest[1:]) if highest.startswith("(") else highest
    return not entry_ids.is_after(entry_id, below) and entry_ids.is_after(entry_id, lower[1:])
