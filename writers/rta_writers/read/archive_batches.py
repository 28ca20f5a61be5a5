"""Files of the archive to Arrow batches with the columns of a read: those that the stream would give."""

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa

from rta_wire.archive import selection
from rta_wire.archive.samples import ArchivedSamples
from rta_writers.options.read import ReadForm, ReadOptions
from rta_writers.read import archive_files, batches, overtaken_ranges, plan
from rta_writers.read.channels import SessionBindings, TaskChannels

_EVENT_COLUMNS = ("event_definition_id", "time", "app_name", "status_text", "raw_data")


def read_range(
    options: ReadOptions,
    any_range: plan.AnyRange,
    row_filter: batches.RowFilter,
    bindings: SessionBindings | None = None,
) -> Iterator[pa.RecordBatch]:
    """All rows of a range that a filter wants, of a stream or of files. What is archived and trimmed before it could be
    read comes from the archive."""
    if isinstance(any_range, archive_files.ArchiveRange):
        return read_batches(options, any_range, row_filter, bindings)
    return overtaken_ranges.read(
        options,
        any_range,
        row_filter.of_samples,
        lambda used, entry_range: batches.read_batches(used, entry_range, row_filter, bindings),
        lambda archive_range: read_batches(options, archive_range, row_filter, bindings),
    )


def read_batches(
    options: ReadOptions,
    archive_range: archive_files.ArchiveRange,
    row_filter: batches.RowFilter,
    bindings: SessionBindings | None = None,
) -> Iterator[pa.RecordBatch]:
    """All rows of a range that a filter wants. `bindings`: the configurations of sessions by their numbers."""
    identity, number = archive_range.identity, archive_range.stream_session_id
    if not row_filter.has_session(number, identity):
        return
    of_session = batches.session_columns(identity, number)
    read_schema = batches.schema(options)
    if options.form is ReadForm.EVENTS:
        for batch in archive_files.iter_events(archive_range):
            mask = row_filter.time_mask(batch.column("time").to_numpy(zero_copy_only=False))
            wanted = batch if mask is None else batch.filter(pa.array(mask))
            arrays = [*of_session(len(wanted)), *(wanted.column(name) for name in _EVENT_COLUMNS)]
            yield pa.RecordBatch.from_arrays(arrays, schema=read_schema)
        return
    counters = selection.ReadCounters(parts=len(archive_range.files), files=len(archive_range.files))
    value_type = read_schema.field("value").type
    names = TaskChannels(options, bindings or {}).names(number)
    wanted = row_filter.of_samples
    if row_filter.names is not None:
        of_names = names.ids_of(row_filter.names)
        channels = of_names if wanted.channels is None else wanted.channels & of_names
        wanted = msgspec.structs.replace(wanted, channels=frozenset(channels))
    for samples in archive_files.iter_samples(archive_range, wanted, counters):
        if len(samples.times_ns):
            values = _value_column(samples, value_type)
            named = names.columns(samples.channels.astype(np.uint32)) if batches.NAME in read_schema.names else ()
            arrays = [*of_session(len(values)), pa.array(samples.channels), pa.array(samples.times_ns), values, *named]
            yield pa.RecordBatch.from_arrays(arrays, schema=read_schema)
    archive_files.log_counters(counters, f"session {identity!r}, one task")


def _value_column(samples: ArchivedSamples, value_type: pa.DataType) -> pa.Array:
    """Values with the type of the column: whole numbers of 64 bits with all their digits where it can hold them."""
    if samples.integers is not None and samples.has_integer is None and value_type != pa.float64():
        low = samples.integers.low
        return pa.array(low.view(np.int64)) if value_type == pa.int64() else pa.array(low).cast(value_type)
    return pa.array(samples.values).cast(value_type, safe=False)
