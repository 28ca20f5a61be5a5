"""Which row groups of a file can hold rows that are wanted, by the statistics in its footer."""

from collections.abc import Collection
from typing import Any

import msgspec
import numpy as np

from rta_wire.arrays import I64, Bools


class SampleFilter(msgspec.Struct, frozen=True):
    """Which samples are wanted; a field that is None allows all. Times are inclusive."""

    start_ns: int | None = None
    end_ns: int | None = None
    channels: frozenset[int] | None = None

    def mask(self, channels: I64, times_ns: I64) -> Bools | None:
        """Which of these samples are wanted, None where all are."""
        masks: list[Bools] = []
        if self.start_ns is not None:
            masks.append(times_ns >= self.start_ns)
        if self.end_ns is not None:
            masks.append(times_ns <= self.end_ns)
        if self.channels is not None:
            masks.append(np.isin(channels, np.fromiter(self.channels, np.int64, len(self.channels))))
        return np.logical_and.reduce(masks) if masks else None


class ReadCounters(msgspec.Struct):
    """What was read of an archive, and what was skipped without reading it."""

    parts: int = 0
    parts_skipped: int = 0
    files: int = 0
    files_skipped: int = 0
    row_groups: int = 0
    row_groups_skipped: int = 0
    rows: int = 0
    """Rows of the row groups that were read, wanted or not."""

    def add(self, other: "ReadCounters") -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def row_groups(metadata: Any, sample_filter: SampleFilter, counters: ReadCounters | None = None) -> list[int]:
    """The row groups of a file with samples that may hold wanted ones. `metadata` is `pq.ParquetFile.metadata`."""
    columns = [metadata.schema.column(index).name for index in range(metadata.num_columns)]
    channel, time = columns.index("channel"), columns.index("time")
    wanted = sorted(sample_filter.channels) if sample_filter.channels is not None else None
    chosen: list[int] = []
    rows = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if _may_hold(group.column(time).statistics, sample_filter.start_ns, sample_filter.end_ns) and (
            wanted is None or _holds_any(group.column(channel).statistics, wanted)
        ):
            chosen.append(number)
            rows += group.num_rows
    if counters is not None:
        counters.row_groups += len(chosen)
        counters.row_groups_skipped += metadata.num_row_groups - len(chosen)
        counters.rows += rows
    return chosen


def _may_hold(statistics: Any, low: int | None, high: int | None) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    return (high is None or statistics.min <= high) and (low is None or statistics.max >= low)


def _holds_any(statistics: Any, wanted: Collection[int]) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    low, high = statistics.min, statistics.max
    return any(low <= channel <= high for channel in wanted)
