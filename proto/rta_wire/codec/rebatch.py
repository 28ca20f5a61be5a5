"""Arrow batches of any size to batches of the size that encodes best. Rows are copied only where batches meet."""

from collections.abc import Iterable, Iterator

import pyarrow as pa


class RowBatcher:
    """Takes batches as they come and gives full ones. How rows arrive makes no difference to them and their order."""

    def __init__(self, max_rows: int, max_bytes: int | None = None) -> None:
        """A batch is full with `max_rows` rows, or with fewer where those take about `max_bytes`."""
        self.waiting_rows = 0
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take more rows. Gives the batches that are full now."""
        most = self._max_rows
        if self._max_bytes is not None:
            most = min(most, max(1, self._max_bytes * batch.num_rows // max(1, batch.nbytes)))
        first = 0
        while batch.num_rows - first >= most - self.waiting_rows:
            taken = max(0, most - self.waiting_rows)
            self._keep(batch.slice(first, taken))
            first += taken
            yield from self.drain()
        self._keep(batch.slice(first))

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Gives the rows that wait, where there are any."""
        batches, self._waiting, self.waiting_rows = self._waiting, [], 0
        if len(batches) > 1:
            batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
        yield from batches

    def _keep(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
            self.waiting_rows += batch.num_rows


def rebatch(batches: Iterable[pa.RecordBatch], max_rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `max_rows`, the last one shorter."""
    batcher = RowBatcher(max_rows)
    for batch in batches:
        yield from batcher.add(batch)
    yield from batcher.drain()
