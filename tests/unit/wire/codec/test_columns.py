"""Batches of any size to batches of one size."""

import random

import numpy as np
import pyarrow as pa
import pytest

from rta_wire.codec import columns

ROWS = 131_072


def cut(table: pa.Table, seed: int) -> list[pa.RecordBatch]:
    chooser = random.Random(seed)  # noqa: S311 - any cut will do
    batches = []
    first = 0
    while first < table.num_rows:
        size = chooser.choice([1, 10_000, 65_536, 70_000, 140_000])
        batches += table.slice(first, size).to_batches()
        first += size
    return batches


def test_groups_do_not_depend_on_batches() -> None:
    """However Spark cuts its batches, the rows are encoded in the same groups."""
    table = pa.table({"n": pa.array(range(2 * ROWS + 100))})
    for seed in range(6):
        groups = list(columns.rebatch(cut(table, seed), ROWS))
        assert [group.num_rows for group in groups] == [ROWS, ROWS, 100]
        assert pa.Table.from_batches(groups).equals(table)


def test_wide_rows_fill_a_batch_by_their_bytes() -> None:
    """A batch has fewer rows than it may have where they are large, and one row at least."""
    batch = pa.record_batch({"n": pa.array(range(100), pa.int64())})
    for max_bytes, sizes in ((80, [10] * 10), (8 * 30, [30, 30, 30, 10]), (1, [1] * 100)):
        batcher = columns.RowBatcher(1000, max_bytes)
        groups = [*batcher.add(batch), *batcher.drain()]
        assert [group.num_rows for group in groups] == sizes
        assert batcher.waiting_rows == 0
        assert pa.Table.from_batches(groups).column("n").to_pylist() == list(range(100))


@pytest.mark.parametrize(("rows", "groups"), [(3, [3, 3]), (4, [4, 4]), (1, [2]), (6, [4, 4, 4])])
def test_batches_of_about_the_size_in_bytes_are_not_joined(rows: int, groups: list[int]) -> None:
    """Where four rows are full, batches of two to four stay as they are, shorter ones are joined, longer ones cut."""
    batch = pa.record_batch({"value": np.arange(rows, dtype=np.int64)})
    batcher = columns.RowBatcher(1000, 32)
    full = [group for _ in range(2) for group in batcher.add(batch)]
    full += batcher.drain()
    assert [group.num_rows for group in full] == groups
