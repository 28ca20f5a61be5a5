"""Encodes columns as bursts. The cut depends on the rows and the options alone, so that a retry makes the same bursts.

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
from rta_wire.codec import (
    burst,
    channel_runs,
    columns,
    event_messages,
    row_order,
    sample_messages,
    single_samples,
    wide,
)
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
    return _burst_of(item, options)


def time_range(start_ns: int, end_ns: int, options: Options = DEFAULTS) -> bytes:
    """The `data` of an entry that holds the time range of a session and nothing else."""
    if options.framing is burst.Framing.RAW and start_ns and end_ns:
        return _literal_time_range(start_ns, end_ns)
    try:
        message = stream_pb2.StreamTimeRange(start_time=start_ns, end_time=end_ns)
    except (TypeError, ValueError) as error:
        raise errors.BadSamples(reason=f"{start_ns} to {end_ns} is no range of nanoseconds: {error}") from error
    return _burst_of(stream_pb2.StreamData(time_range=message), options)


_TIME_RANGE: Final = struct.Struct("<BB5sqBq")
_TIME_RANGE_HEAD: Final = b"\x0a\x14\x1a\x12\x09"
_TIME_RANGE_LITERALS: Final = _TIME_RANGE.size - 2


def _literal_time_range(start_ns: int, end_ns: int) -> bytes:
    """A burst with a time range, as an LZ4 block of literals: twenty times as fast as protobuf and LZ4, and the
    supervisor makes up to ten of them a second for each session. Not for a time of 0, which protobuf leaves out."""
    try:
        return _TIME_RANGE.pack(0xF0, _TIME_RANGE_LITERALS - 15, _TIME_RANGE_HEAD, start_ns, 0x11, end_ns)
    except struct.error as error:
        raise errors.BadSamples(reason=f"{start_ns} to {end_ns} is no range of nanoseconds: {error}") from error


def _burst_of(item: stream_pb2.StreamData, options: Options) -> bytes:
    """A burst with one message."""
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
    """Makes bursts by a plan of layouts. Keeps nothing between calls, so that threads may share one encoder."""

    def __init__(self, layouts: codec_layout.Plan | None = None, options: Options = DEFAULTS) -> None:
        self.layouts = layouts or codec_layout.Plan()
        self.options = options
        self.is_plain = self.layouts.layouts == [codec_layout.Layout()]
        """Whether all channels have timestamped doubles."""

    def rows(self, channels: Any, times: Any, values: Any) -> Iterator[Burst]:
        """Long form from three numpy or Arrow arrays of one length. A null value is no sample; NaN is one."""
        lengths = [len(column) for column in (channels, times, values)]
        if len(set(lengths)) > 1:
            raise errors.BadSamples(reason="{} channels, {} times and {} values differ".format(*lengths))
        if lengths[0] <= self.options.group_rows:
            yield from self._group(channels, times, values, 0)
            return
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
        for batch in columns.rebatch(batches, self.options.group_rows):
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
        for batch in columns.rebatch(batches, wide.group_rows(len(channels), self.options)):
            values = dict(zip(channels.values(), columns.get_columns(batch, channels), strict=True))
            yield from self._table(columns.get_column(batch, time), values, first)
            first += batch.num_rows

    def table(self, times: Any, values: Mapping[int, Any]) -> Iterator[Burst]:
        """Wide form from arrays: the times, and for each channel id as many values."""
        step = wide.group_rows(len(values), self.options)
        if len(times) <= step:
            yield from self._table(times, values, 0)
            return
        for first in range(0, len(times), step):
            part = slice(first, first + step)
            part_values = {channel: array[part] for channel, array in values.items()}
            yield from self._table(times[part], part_values, first)

    def _table(self, times: Any, values: Mapping[int, Any], first_row: int) -> Iterator[Burst]:
        blocks = wide.blocks(times, values, self.layouts, self.options, first_row)
        return burst.cut_bursts(blocks, self.options)

    def _group(self, channels: Any, times: Any, values: Any, first_row: int) -> Iterator[Burst]:
        if self.is_plain and 0 < len(channels) <= single_samples.ROWS_MAX:
            made = self._single_samples(channels, times, values, first_row)
            if made is not None:
                return iter((made,))
        parts = self._parts(channels, times, values, first_row)
        # Popped one by one, so that each part is released as soon as its messages are made.
        return burst.cut_bursts(sample_messages.blocks(parts.pop(0) for _ in range(len(parts))), self.options)

    def _single_samples(self, channels: Any, times: Any, values: Any, first_row: int) -> Burst | None:
        """The burst of rows that are one double of each channel, None where they are anything else."""
        samples, valid = columns.column(values, "value")
        if valid is not None or samples.dtype != codec_layout.SampleType.DOUBLE.dtype:
            return None
        ids, are_valid = columns.column(channels, "channel")
        if are_valid is not None or ids.dtype.kind not in "iu":
            return None
        return single_samples.encode(ids, columns.times_ns(times, first_row), samples, self.options)

    def _parts(self, channels: Any, times: Any, values: Any, first_row: int) -> list[sample_messages.TypedRuns]:
        """Rows by layout, sorted, in the type of the layout. Arrays that only sorting needs are released on return."""
        source, valid = columns.sample_column(values, "value", (used.type for used in self.layouts.layouts))
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
            runs = channel_runs.select(grouped, codes == code)
            samples = runs.order.apply(source)
            if samples.dtype != layout.type.dtype:
                rows = runs.order.rows if origin is None else origin[runs.order.rows]
                samples = columns.cast_samples(samples, layout.type, rows, first_row)
            parts.append(sample_messages.TypedRuns(runs._replace(order=row_order.NO_ORDER), samples, layout))
        return parts

    def events(self, events: Iterable[data_pb2.Event]) -> Iterator[Burst]:
        """Events in the order in which they come, as `rta_wire.codec.event_messages` makes them."""
        waiting: list[data_pb2.Event] = []
        for event in events:
            waiting.append(event)
            if len(waiting) == limits.ENCODE_GROUP_EVENTS:
                yield from burst.cut_bursts([event_messages.block(waiting)], self.options)
                waiting.clear()
        yield from burst.cut_bursts([event_messages.block(waiting)], self.options)
