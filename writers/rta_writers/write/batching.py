"""Batches of any size to groups of the size that encodes best, without copying rows where batches fit."""

from collections.abc import Iterator

import pyarrow as pa

from rta_writers.write.frames import GROUP_BYTES_MAX


class RowBatcher:
    """Takes batches, gives groups. How batches are cut makes no difference to the rows and their order."""

    def __init__(self, rows: int) -> None:
        self.waiting_rows = 0
        self._rows = rows
        self._held: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The groups that are full now."""
        most = min(self._rows, max(1, GROUP_BYTES_MAX * batch.num_rows // max(1, batch.nbytes)))
        first = 0
        while batch.num_rows - first >= most - self.waiting_rows:
            take = max(0, most - self.waiting_rows)
            self._hold(batch.slice(first, take))
            first += take
            yield from self.drain()
        self._hold(batch.slice(first))

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Whatever waits."""
        held, self._held, self.waiting_rows = self._held, [], 0
        if len(held) > 1:
            held = pa.Table.from_batches(held).combine_chunks().to_batches()
        yield from held

    def _hold(self, part: pa.RecordBatch) -> None:
        if part.num_rows:
            self._held.append(part)
            self.waiting_rows += part.num_rows
