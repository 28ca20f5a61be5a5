"""A session as one table: a row for each time, or for each point of a grid, and a column for each channel.

Samples of one time may stand in many entries. So a task reads all entries of the session, and its files in the archive,
and keeps the samples of the chosen channels in memory, about 16 bytes each; several tasks divide the time between them.
Does not import Spark.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import redis

from rta_wire import errors, keys
from rta_wire.archive import selection
from rta_wire.arrays import I64
from rta_wire.channels import model
from rta_wire.codec.layout import SampleType
from rta_writers.options.read import ReadOptions
from rta_writers.read import archive_files, batches, channels, lookup, overtaken_ranges, plan
from rta_writers.read.batches import RowFilter
from rta_writers.read.time_window import Samples, TimeWindow, WindowSamples

TIME: Final = "time"
BATCH_CELLS: Final = 4_194_304
"""Values of one batch, about."""

GRID_ROWS_MAX: Final = 10**9


class WideRange(msgspec.Struct, frozen=True):
    """What one task reads: all entries of a session, in their order, for the rows with times from `start_ns` up to, and
    without, `end_ns`; None stands for no limit."""

    ranges: tuple[plan.AnyRange, ...]
    bindings: channels.SessionBindings
    columns: dict[str, model.Channel]
    start_ns: int | None = None
    end_ns: int | None = None

    @property
    def types(self) -> dict[int, SampleType]:
        """How the samples of each chosen channel are stored."""
        return {channel.id: channel.type for channel in self.columns.values()}


def schema(columns: Mapping[str, model.Channel]) -> pa.Schema:
    """The time, and each channel by its name in its own type."""
    fields = [(name, batches.column_type(channel.type)) for name, channel in columns.items()]
    return pa.schema([(TIME, pa.int64()), *fields])


def plan_ranges(client: redis.Redis, options: ReadOptions, row_filter: RowFilter) -> list[WideRange]:
    """What each task reads. Option `partitions` divides the time that the session has samples of."""
    options = lookup.learn_names(client, options)
    columns = channels.wide_channels(client, options)
    wanted = _sample_filter(options, (None, None), row_filter, columns)
    ranges = plan.plan_read(client, msgspec.structs.replace(options, partitions=1), wanted)
    if not ranges:
        return []
    bindings = channels.read_bindings(client, options, ranges[0].identities)
    return [
        WideRange(tuple(ranges), bindings, columns, start_ns, end_ns) for start_ns, end_ns in _slices(client, options)
    ]


_Slice = tuple[int | None, int | None]
"""From a time up to, and without, another."""


def _slices(client: redis.Redis, options: ReadOptions) -> list[_Slice]:
    count = options.partitions or 1
    start_ns, end_ns = _time_range(client, options) if count > 1 else (None, None)
    if start_ns is None or end_ns is None:
        return [(None, None)]
    step = (end_ns - start_ns) // count + 1
    inner = [start_ns + number * step for number in range(1, count)]
    return list(zip([None, *inner], [*inner, None], strict=True))


def _time_range(client: redis.Redis, options: ReadOptions) -> _Slice:
    """Between which times the session has samples, as far as that is known."""
    identity = options.session or ""
    key = options.names.session(identity)
    start, end = lookup.call_redis(options, lambda: client.hmget(key, [keys.T_START, keys.T_END]))
    if start is not None and end is not None:
        return int(start), int(end)
    stored = lookup.find_stored(client, options, identity)
    parts = [] if stored is None else stored.archive.parts
    starts = [part.start_ns for part in parts if part.start_ns is not None]
    ends = [part.end_ns for part in parts if part.end_ns is not None]
    return min(starts, default=None), max(ends, default=None)


def _sample_filter(
    options: ReadOptions, times_ns: _Slice, row_filter: RowFilter, columns: Mapping[str, model.Channel]
) -> selection.SampleFilter:
    """The samples that rows between two times can show. On a grid that may be any earlier one, too."""
    chosen = frozenset(channel.id for channel in columns.values())
    if options.grid_ns is not None:
        return selection.SampleFilter(channels=chosen)
    start_ns, end_ns = times_ns
    starts = [limit for limit in (start_ns, row_filter.start_ns) if limit is not None]
    ends = [limit for limit in (None if end_ns is None else end_ns - 1, row_filter.end_ns) if limit is not None]
    return selection.SampleFilter(max(starts, default=None), min(ends, default=None), chosen)


def read_batches(options: ReadOptions, wide_range: WideRange, row_filter: RowFilter) -> Iterator[pa.RecordBatch]:
    """The rows of one task, in the order of their times."""
    read = _read_samples(options, wide_range, row_filter)
    samples = read.in_order()
    wide_schema = schema(wide_range.columns)
    step = max(1, BATCH_CELLS // len(wide_schema))
    for times in _row_times(options, wide_range, read, samples):
        mask = _rows_mask(times, wide_range, row_filter)
        rows_ns = times if mask is None else times[mask]
        for first in range(0, len(rows_ns), step):
            page = rows_ns[first : first + step]
            columns = [
                _column(samples.get(channel.id), page, channel.type, is_grid=options.grid_ns is not None)
                for channel in wide_range.columns.values()
            ]
            yield pa.RecordBatch.from_arrays([pa.array(page), *columns], schema=wide_schema)


def _read_samples(options: ReadOptions, wide_range: WideRange, row_filter: RowFilter) -> WindowSamples:
    """The samples of each chosen channel that the rows of a task can show."""
    window = TimeWindow(wide_range.start_ns, wide_range.end_ns).within(row_filter.start_ns, row_filter.end_ns)
    samples = WindowSamples(wide_range.types, window, keeps_last=options.grid_ns is not None)
    for one in wide_range.ranges:
        if isinstance(one, archive_files.ArchiveRange):
            found = _archived_samples(options, one, wide_range, row_filter)
        else:
            found = overtaken_ranges.read(
                options,
                one,
                _wanted_samples(options, wide_range, row_filter),
                lambda used, entry_range: _stream_samples(used, entry_range, wide_range, row_filter, samples),
                lambda files: _archived_samples(options, files, wide_range, row_filter),
            )
        for channel_id, (times_ns, values) in found:
            samples.add(channel_id, times_ns, values)
    return samples


def _wanted_samples(options: ReadOptions, wide_range: WideRange, row_filter: RowFilter) -> selection.SampleFilter:
    return _sample_filter(options, (wide_range.start_ns, wide_range.end_ns), row_filter, wide_range.columns)


def _stream_samples(
    options: ReadOptions,
    entry_range: plan.EntryRange,
    wide_range: WideRange,
    row_filter: RowFilter,
    window_samples: WindowSamples,
) -> Iterator[tuple[int, Samples]]:
    """Samples of entries, of one channel at a time. Those that `window_samples` does not need are left out."""
    types = wide_range.types
    task_channels = channels.TaskChannels(options, wide_range.bindings)
    for _, _, decoded in batches.read_decoded(options, entry_range, row_filter, task_channels):
        for sample_type, columns in decoded.samples.items():
            if not window_samples.needs_any(columns.times_ns):
                continue
            for channel_id, places in _by_channel(columns.rows().astype(np.int64), types):
                if types[channel_id] is not sample_type:
                    raise errors.Usage(
                        reason=f"Channel {channel_id} has samples of type {sample_type.value}, not "
                        f"{types[channel_id].value}: the session has got other channels since. Start the read again"
                    )
                yield channel_id, (columns.times_ns[places], columns.values[places])


def _archived_samples(
    options: ReadOptions,
    archive_range: archive_files.ArchiveRange,
    wide_range: WideRange,
    row_filter: RowFilter,
) -> Iterator[tuple[int, Samples]]:
    """Samples of files of the archive, of one channel at a time. Row groups that no row needs are skipped."""
    types = wide_range.types
    wanted = _wanted_samples(options, wide_range, row_filter)
    counters = selection.ReadCounters(parts=len(archive_range.files), files=len(archive_range.files))
    for samples in archive_files.iter_samples(archive_range, wanted, counters):
        for channel_id, places in _by_channel(samples.channels, types):
            chosen = samples.take(places)
            yield channel_id, (chosen.times_ns, chosen.typed_values(types[channel_id]))
    archive_files.log_counters(counters, f"session {archive_range.identity!r}, one task")


def _by_channel(ids: I64, types: Mapping[int, SampleType]) -> Iterator[tuple[int, I64]]:
    """The places of each of the channels in a column of ids, in their order."""
    order = np.argsort(ids, kind="stable")
    order = order[np.isin(ids[order], np.fromiter(types, np.int64, len(types)))]
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    for places in np.split(order, starts[1:]) if len(order) else ():
        yield int(ids[places[0]]), places


def _row_times(
    options: ReadOptions, wide_range: WideRange, read: WindowSamples, samples: Mapping[int, Samples]
) -> Iterator[I64]:
    """Times of rows, a part after the other."""
    if not samples or read.first_ns is None or read.last_ns is None:
        return
    if options.grid_ns is None:
        yield np.unique(np.concatenate([times for times, _ in samples.values()]))
        return
    grid_ns = options.grid_ns
    first, last = -(-read.first_ns // grid_ns), -(-read.last_ns // grid_ns)
    if last - first >= GRID_ROWS_MAX:
        raise errors.Usage(
            reason=f"Option 'gridNs' is {grid_ns}: that makes {last - first + 1} rows of the session, more than "
            f"{GRID_ROWS_MAX}"
        )
    if wide_range.start_ns is not None:
        first = max(first, -(-wide_range.start_ns // grid_ns))
    if wide_range.end_ns is not None:
        last = min(last, -(-wide_range.end_ns // grid_ns) - 1)
    step = max(1, BATCH_CELLS // (len(wide_range.columns) + 1))
    for start in range(first, last + 1, step):
        yield np.arange(start, min(start + step, last + 1), dtype=np.int64) * grid_ns


def _rows_mask(times: I64, wide_range: WideRange, row_filter: RowFilter) -> Any:
    mask = row_filter.time_mask(times)
    if wide_range.start_ns is not None:
        is_after = times >= wide_range.start_ns
        mask = is_after if mask is None else mask & is_after
    if wide_range.end_ns is not None:
        is_before = times < wide_range.end_ns
        mask = is_before if mask is None else mask & is_before
    return mask


def _column(samples: Samples | None, rows_ns: I64, sample_type: SampleType, *, is_grid: bool) -> pa.Array:
    """The value of a channel at each time: a sample of that very time, or on a grid the last one until then."""
    arrow_type = batches.column_type(sample_type)
    if samples is None:
        return pa.nulls(len(rows_ns), arrow_type)
    times, values = samples
    if is_grid:
        places = np.searchsorted(times, rows_ns, side="right") - 1
        is_null = places < 0
    else:
        places = np.minimum(np.searchsorted(times, rows_ns), len(times) - 1)
        is_null = times[places] != rows_ns
    column = pa.array(values[places], mask=is_null if is_null.any() else None)
    return column if column.type == arrow_type else column.cast(arrow_type)
