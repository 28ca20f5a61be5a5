"""Columns to bursts. The cut depends on the rows and the options alone, so that a retry makes the same bursts.

Samples come in long form (a row per sample) or in wide form (a row per time, a column per channel), as numpy arrays or
as Arrow record batches. How rows are spread over batches makes no difference to the bursts.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rta_wire import errors, limits
from rta_wire.arrays import F64, I64, U32
from rta_wire.codec import burst, channel_runs, columns, event_messages, row_order, sample_messages, wide
from rta_wire.codec import layout as codec_layout
from rta_wire.pb import data_pb2, stream_pb2

Burst = burst.Burst
Framing = burst.Framing
Options = burst.EncodeOptions
DEFAULTS = Options()


def session_json(document: bytes, options: Options = DEFAULTS) -> bytes:
    """The `data` of an entry that holds the Session JSON and nothing else."""
    try:
        item = stream_pb2.StreamData(session_json=document.decode())
    except UnicodeDecodeError as error:
        raise errors.BadSamples(reason=f"the Session JSON is not UTF-8: {error}") from error
    return _alone(item, options)


def time_range(start_ns: int, end_ns: int, options: Options = DEFAULTS) -> bytes:
    """The `data` of an entry that tells what a session covers."""
    if options.framing is burst.Framing.RAW and start_ns and end_ns:
        return _plain_time_range(start_ns, end_ns)
    try:
        covers = stream_pb2.StreamTimeRange(start_time=start_ns, end_time=end_ns)
    except (TypeError, ValueError) as error:
        raise errors.BadSamples(reason=f"{start_ns} to {end_ns} is no range of nanoseconds: {error}") from error
    return _alone(stream_pb2.StreamData(time_range=covers), options)


_PLAIN: Final = struct.Struct("<BB5sqBq")
_PLAIN_HEAD: Final = b"\x0a\x14\x1a\x12\x09"
_PLAIN_LENGTH: Final = _PLAIN.size - 2


def _plain_time_range(start_ns: int, end_ns: int) -> bytes:
    """The same without protobuf and LZ4, which take twenty times as long: a block of literals. Ten go out a second, for
    each session. A time of 0 has another length."""
    try:
        return _PLAIN.pack(0xF0, _PLAIN_LENGTH - 15, _PLAIN_HEAD, start_ns, 0x11, end_ns)
    except struct.error as error:
        raise errors.BadSamples(reason=f"{start_ns} to {end_ns} is no range of nanoseconds: {error}") from error


def _alone(item: stream_pb2.StreamData, options: Options) -> bytes:
    raw = stream_pb2.StreamDataBurst(data=[item]).SerializeToString()
    return burst.compress(raw, options.level, options.framing)


def encode_doubles(
    channels: U32,
    times_ns: I64,
    values: F64,
    *,
    target_bytes: int = limits.BURST_TARGET_BYTES,
) -> Iterator[Burst]:
    """Doubles in long form, one row each, to bursts of about `target_bytes` before compression."""
    return Encoder(options=Options(target_bytes=target_bytes)).rows(channels, times_ns, values)


class Encoder:
    """Makes bursts after a plan. It keeps nothing between calls, so one may serve many batches at once."""

    def __init__(self, layouts: codec_layout.Plan | None = None, options: Options = DEFAULTS) -> None:
        self.layouts = layouts or codec_layout.Plan()
        self.options = options

    def rows(self, channels: Any, times: Any, values: Any) -> Iterator[Burst]:
        """Long form from three numpy or Arrow arrays of one length. A null value is no sample; NaN is one."""
        lengths = [len(column) for column in (channels, times, values)]
        if len(set(lengths)) > 1:
            raise errors.BadSamples(reason="{} channels, {} times and {} values differ".format(*lengths))
        for first in range(0, len(channels), self.options.group_rows):
            part = slice(first, first + self.options.group_rows)
            yield from self._group(channels[part], times[part], values[part], first)

    def long(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        channel: str = "channel",
        time: str = "time",
        value: str = "value",
    ) -> Iterator[Burst]:
        """Long form from Arrow record batches with a column each for channel id, time and value."""
        first = 0
        for batch in rebatch(batches, self.options.group_rows):
            channels, times, values = (columns.get_column(batch, name) for name in (channel, time, value))
            yield from self._group(channels, times, values, first)
            first += len(channels)

    def wide(
        self, batches: Iterable[pa.RecordBatch], channels: Mapping[str, int], *, time: str = "time"
    ) -> Iterator[Burst]:
        """Wide form from Arrow record batches: a column of times and one for each of `channels`, by name."""
        if len(set(channels.values())) < len(channels):
            raise errors.BadSamples(reason=f"several columns feed one channel: {dict(channels)}")
        first = 0
        for batch in rebatch(batches, wide.group_rows(len(channels), self.options)):
            found = {channel: columns.get_column(batch, name) for name, channel in channels.items()}
            yield from self._table(columns.get_column(batch, time), found, first)
            first += batch.num_rows

    def table(self, times: Any, values: Mapping[int, Any]) -> Iterator[Burst]:
        """Wide form from arrays: the times, and for each channel id as many values."""
        step = wide.group_rows(len(values), self.options)
        for first in range(0, len(times), step):
            part = slice(first, first + step)
            found = {channel: array[part] for channel, array in values.items()}
            yield from self._table(times[part], found, first)

    def _table(self, times: Any, values: Mapping[int, Any], first_row: int) -> Iterator[Burst]:
        blocks = wide.blocks(times, values, self.layouts, self.options, first_row)
        return burst.cut_bursts(blocks, self.options)

    def _group(self, channels: Any, times: Any, values: Any, first_row: int) -> Iterator[Burst]:
        parts = self._parts(channels, times, values, first_row)
        # Handed over one by one, so that each is released as soon as its messages are made.
        return burst.cut_bursts(sample_messages.blocks(parts.pop(0) for _ in range(len(parts))), self.options)

    def _parts(self, channels: Any, times: Any, values: Any, first_row: int) -> list[sample_messages.TypedRuns]:
        """Rows by layout, sorted, in their final type. What sorting needs is gone on return: batches are large."""
        source, valid = columns.column(values, "value")
        ids, times_ns = columns.channels(channels, first_row), columns.times_ns(times, first_row)
        origin = None
        if valid is not None:
            origin = np.flatnonzero(valid)
            ids, times_ns, source = ids[origin], times_ns[origin], source[origin]
        if not len(ids):
            return []
        grouped = channel_runs.group(ids, times_ns, in_time_order=self.options.in_time_order)
        del ids, times_ns
        codes = self.layouts.codes(grouped.channels)
        parts = []
        for code in np.unique(codes).tolist():
            layout = self.layouts.layouts[code]
            some = channel_runs.select(grouped, codes == code)
            made = some.order.apply(source)
            if made.dtype != layout.type.dtype:
                rows = some.order.rows if origin is None else origin[some.order.rows]
                made = columns.cast_samples(made, layout.type, rows, first_row)
            parts.append(sample_messages.TypedRuns(some._replace(order=row_order.NO_ORDER), made, layout))
        return parts

    def events(self, found: Iterable[data_pb2.Event]) -> Iterator[Burst]:
        """Events, in the order in which they come; `rta_wire.codec.event_messages` makes them."""
        waiting: list[data_pb2.Event] = []
        for one in found:
            waiting.append(one)
            if len(waiting) == limits.ENCODE_GROUP_EVENTS:
                yield from burst.cut_bursts([event_messages.block(waiting)], self.options)
                waiting.clear()
        yield from burst.cut_bursts([event_messages.block(waiting)], self.options)


def rebatch(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `most`, the last one shorter. Rows are copied only where batches meet."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        first = 0
        while batch.num_rows - first >= most - count:
            held.append(batch.slice(first, most - count))
            first += most - count
            yield _joined(held)
            held, count = [], 0
        if first < batch.num_rows:
            held.append(batch.slice(first))
            count += batch.num_rows - first
    if held:
        yield _joined(held)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
