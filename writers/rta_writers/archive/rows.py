"""Rows of the archive: entries of a stream decoded into samples and events, with the columns that files have."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self

import msgspec
import numpy as np
import pyarrow as pa

from rta_wire import content_digest
from rta_wire.arrays import F64, I64, Array
from rta_wire.codec import burst, columns, decode, layout
from rta_wire.codec.sample_columns import SampleColumns
from rta_wire.pb import data_pb2
from rta_wire.stream.cursor import StreamEntry
from rta_writers.read import batches as read_batches

SAMPLES: Final = pa.schema(
    [
        pa.field("identity", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("stream_session_id", pa.int64(), nullable=False),
        pa.field("channel", pa.int64(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("integer", pa.decimal128(20, 0)),
    ]
)
"""`value` is exact for all types but whole numbers of 64 bits: `integer` has those with all their digits."""

EVENTS: Final = pa.schema(
    [
        pa.field("identity", pa.string(), nullable=False),
        pa.field("stream_session_id", pa.int64(), nullable=False),
        pa.field("event_definition_id", pa.int32(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("app_name", pa.string(), nullable=False),
        pa.field("status_text", pa.string(), nullable=False),
        pa.field("raw_data", read_batches.RAW_DATA_TYPE),
    ]
)

_WIDER_THAN_DOUBLE: Final = (layout.SampleType.INT64, layout.SampleType.UINT64)


class SessionLayout(msgspec.Struct, frozen=True):
    """One session, and how its samples are stored."""

    identity: str
    layouts: layout.Plan
    framing: burst.Framing = burst.Framing.RAW

    def decode(self, entries: Sequence[StreamEntry]) -> decode.DecodedBursts:
        """What entries of the session hold."""
        return decode.entries(entries, self.layouts, framing=self.framing)


class LongSamples(msgspec.Struct, frozen=True):
    """Samples in long form, as files have them."""

    channels: I64
    times_ns: I64
    values: F64
    integers: Array | None = None
    """The same values with all their digits, where doubles have too few."""

    @classmethod
    def from_columns(cls, sample_type: layout.SampleType, samples: SampleColumns) -> Self:
        """From decoded samples of one type."""
        channels = samples.rows().astype(np.int64)
        if sample_type in _WIDER_THAN_DOUBLE:
            return cls(channels, samples.times_ns, samples.values.astype(np.float64), samples.values)
        return cls(channels, samples.times_ns, columns.cast_samples(samples.values, layout.SampleType.DOUBLE))

    def digest(self) -> content_digest.Digest:
        integers = None if self.integers is None else content_digest.Int64Values.from_values(self.integers)
        return content_digest.of_samples(self.channels, self.times_ns, self.values, integers)

    def batch(self, identity: str, number: int) -> pa.RecordBatch:
        """The samples with the columns of their session."""
        count = len(self.times_ns)
        names = pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([identity]))
        digits = SAMPLES.field("integer").type
        integers = pa.nulls(count, digits) if self.integers is None else pa.array(self.integers).cast(digits)
        arrays = (self.channels, self.times_ns, self.values)
        return pa.RecordBatch.from_arrays(
            [names, pa.array(np.full(count, number, np.int64)), *map(pa.array, arrays), integers], schema=SAMPLES
        )


def events_table(events: Sequence[data_pb2.Event], identity: str, number: int) -> pa.Table:
    """Events with the columns of their session."""
    session_arrays = [pa.array([identity] * len(events)), pa.array([number] * len(events), pa.int64())]
    return pa.Table.from_arrays([*session_arrays, *read_batches.event_arrays(events)], schema=EVENTS)


def stream_entries(batches: Iterable[pa.RecordBatch]) -> Iterator[StreamEntry]:
    """Entries from batches that were read in form `entries`."""
    for batch in batches:
        numbers, ids, data = (batch.column(name) for name in ("stream_session_id", "entry", "data"))
        for row in range(len(batch)):
            yield StreamEntry(ids[row].as_py(), numbers[row].as_py(), data[row].as_py())
