"""What tasks of an archive job do: entries of sessions to Parquet files, and what a stream holds of them, counted anew.

A task gets whole entries, a session after the other. It decodes them and writes files with Arrow, which keeps every bit
of a double; a value that crosses Spark's rows on the way costs ten times as much. `Held` counts in another way what
should have come out: from the stream, without Spark in between.
"""

import concurrent.futures
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rta_wire import content_digest, errors
from rta_wire.arrays import F64, I64, Array
from rta_wire.codec import burst, columns, decode, layout, sample_columns
from rta_wire.pb import data_pb2
from rta_wire.stream import cursor

ENTRIES_PER_DECODE: Final = 128
ROW_GROUP_ROWS: Final = 1 << 20
"""Rows of a row group: what a task holds in memory, about 60 bytes a row."""

FILE_ROWS: Final = 32 * ROW_GROUP_ROWS
EVENTS_PER_GROUP: Final = 65_536

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
"""`value` is exact for all types but whole numbers of 64 bits: those stand in `integer` with all their digits."""

EVENTS: Final = pa.schema(
    [
        pa.field("identity", pa.string(), nullable=False),
        pa.field("stream_session_id", pa.int64(), nullable=False),
        pa.field("event_definition_id", pa.int32(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("app_name", pa.string(), nullable=False),
        pa.field("status_text", pa.string(), nullable=False),
        pa.field("raw_data", pa.list_(pa.field("element", pa.float64()))),
    ]
)

RESULT_SCHEMA: Final = "stream_session_id bigint, kind string, file string, rows bigint"
"""Columns of what a task tells. A kind that is no kind of file is trouble, and the file is the sentence."""

BROKEN: Final = "broken"
UNWRITABLE: Final = "unwritable"
_TIMES: Final = {"time": "DELTA_BINARY_PACKED"}
_SPLIT: Final = {"value": "BYTE_STREAM_SPLIT"}
"""Bytes of doubles beside bytes of the same weight: much shorter after zstd, but Spark reads it from 4.3 on."""

_LONG: Final = (layout.SampleType.INT64, layout.SampleType.UINT64)


class SessionLayout(msgspec.Struct, frozen=True):
    """One session, and how its samples are stored."""

    identity: str
    layouts: layout.Plan
    framing: burst.Framing = burst.Framing.RAW


class ParquetOptions(msgspec.Struct, frozen=True):
    """How files are written."""

    level: int = 3
    byte_stream_split: bool = False


class Samples(msgspec.Struct, frozen=True):
    """Samples in long form, as files have them."""

    channels: I64
    times_ns: I64
    values: F64
    integers: Array | None = None
    """The same values with all their digits, where doubles have too few."""

    @classmethod
    def of(cls, kind: layout.SampleType, found: sample_columns.SampleColumns) -> "Samples":
        channels = found.rows().astype(np.int64)
        if kind in _LONG:
            return cls(channels, found.times_ns, found.values.astype(np.float64), found.values)
        return cls(channels, found.times_ns, columns.cast_samples(found.values, layout.SampleType.DOUBLE))

    def digest(self) -> content_digest.Digest:
        whole = None if self.integers is None else content_digest.Int64Values.from_values(self.integers)
        return content_digest.of_samples(self.channels, self.times_ns, self.values, whole)

    def batch(self, identity: str, number: int) -> pa.RecordBatch:
        count = len(self.times_ns)
        name = pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([identity]))
        digits = SAMPLES.field("integer").type
        integer = pa.nulls(count, digits) if self.integers is None else pa.array(self.integers).cast(digits)
        arrays = (self.channels, self.times_ns, self.values)
        return pa.RecordBatch.from_arrays(
            [name, pa.array(np.full(count, number, np.int64)), *map(pa.array, arrays), integer], schema=SAMPLES
        )


class ParquetTask:
    """What `mapInArrow` calls in each task: takes entries, leaves files in a folder for each session, tells of them."""

    def __init__(self, folder: str, wanted: Mapping[int, SessionLayout], way: ParquetOptions | None = None) -> None:
        self._folder = folder
        self._wanted = dict(wanted)
        self._way = way or ParquetOptions()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        told: list[tuple[int, str, str, int]] = []
        for number, entries in _by_session(batches):
            files = _Files(Path(self._folder) / str(number), self._wanted[number].identity, number, self._way)
            try:
                for some in entries:
                    files.add(decoded_bursts(some, self._wanted[number]))
                told += [(number, *one) for one in files.close()]
            except errors.RtaError as error:
                files.discard()
                told.append((number, BROKEN, str(error), 0))
                for _ in entries:
                    pass
            except OSError as error:
                files.discard()
                told.append((number, UNWRITABLE, error.strerror or str(error), 0))
                break
        rows = [pa.array(column) for column in zip(*told, strict=True)] if told else [[], [], [], []]
        types = (pa.int64(), pa.string(), pa.string(), pa.int64())
        names = ("stream_session_id", "kind", "file", "rows")
        arrays = [pa.array(column, kind) for column, kind in zip(rows, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _by_session(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[list[cursor.StreamEntry]]]]:
    """Entries in parts, session after session: they come sorted by it."""
    rows = stream_entries(batches)
    first = next(rows, None)

    def parts(number: int) -> Iterator[list[cursor.StreamEntry]]:
        nonlocal first
        some: list[cursor.StreamEntry] = []
        while first is not None and first.stream_session_id == number:
            some.append(first)
            first = next(rows, None)
            if len(some) == ENTRIES_PER_DECODE:
                yield some
                some = []
        if some:
            yield some

    while first is not None:
        yield first.stream_session_id, parts(first.stream_session_id)


def stream_entries(batches: Iterable[pa.RecordBatch]) -> Iterator[cursor.StreamEntry]:
    for batch in batches:
        numbers, ids, data = (batch.column(name) for name in ("stream_session_id", "entry", "data"))
        for row in range(len(batch)):
            yield cursor.StreamEntry(ids[row].as_py(), numbers[row].as_py(), data[row].as_py())


def decoded_bursts(some: Sequence[cursor.StreamEntry], wanted: SessionLayout) -> decode.DecodedBursts:
    return decode.entries(some, wanted.layouts, framing=wanted.framing)


class _Files:
    """Files of one session that one task writes. Names are new for each attempt: only those that are told of count."""

    def __init__(self, folder: Path, identity: str, number: int, way: ParquetOptions) -> None:
        self._folder = folder
        self._identity = identity
        self._number = number
        self._way = way
        self._waiting: list[Samples] = []
        self._waiting_rows = 0
        self._events: list[data_pb2.Event] = []
        self._open: dict[str, tuple[pq.ParquetWriter, str]] = {}
        self._rows: dict[str, int] = {}
        self._done: list[tuple[str, str, int]] = []
        # One group ahead: the next one is decoded while this one is written.
        self._executor = concurrent.futures.ThreadPoolExecutor(1)
        self._busy: concurrent.futures.Future[None] | None = None

    def add(self, found: decode.DecodedBursts) -> None:
        for kind, some in found.samples.items():
            self._waiting.append(Samples.of(kind, some))
            self._waiting_rows += len(some.times_ns)
        self._events += found.events
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self._write_samples()
        if len(self._events) >= EVENTS_PER_GROUP:
            self._write_events()

    def close(self) -> list[tuple[str, str, int]]:
        """Kind, name and rows of each file."""
        self._write_samples()
        self._write_events()
        self._settle()
        for kind in list(self._open):
            self._finish(kind)
        self._executor.shutdown()
        return self._done

    def discard(self) -> None:
        self._executor.shutdown()
        for writer, name in self._open.values():
            _close_quietly(writer)
            (self._folder / name).unlink(missing_ok=True)
        for _, name, _ in self._done:
            (self._folder / name).unlink(missing_ok=True)

    def _write_samples(self) -> None:
        if self._waiting:
            self._settle()
            self._busy = self._executor.submit(self._write_table, self._waiting)
        self._waiting, self._waiting_rows = [], 0

    def _write_table(self, waiting: Sequence[Samples]) -> None:
        batches = [one.batch(self._identity, self._number) for one in waiting]
        self._write("samples", pa.Table.from_batches(batches, SAMPLES))

    def _settle(self) -> None:
        """Wait for what is being written."""
        if self._busy is not None:
            self._busy.result()
        self._busy = None

    def _write_events(self) -> None:
        if self._events:
            self._settle()
            self._write("events", events_table(self._events, self._identity, self._number))
        self._events = []

    def _write(self, kind: str, table: pa.Table) -> None:
        if kind not in self._open:
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"{'part' if kind == 'samples' else kind}-{uuid.uuid4().hex}.parquet"
            self._open[kind] = _parquet(self._folder / name, table.schema, self._way), name
            self._rows[kind] = 0
        self._open[kind][0].write_table(table, row_group_size=len(table))
        self._rows[kind] += len(table)
        if self._rows[kind] >= FILE_ROWS:
            self._finish(kind)

    def _finish(self, kind: str) -> None:
        writer, name = self._open[kind]
        writer.close()
        del self._open[kind]
        self._done.append((kind, name, self._rows.pop(kind)))


def _parquet(path: Path, schema: pa.Schema, way: ParquetOptions) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=way.level,
        use_dictionary=["identity", "stream_session_id", "channel"],
        # Readers skip rows by these; the least and the most of the others would cost as much as writing them.
        write_statistics=["channel", "event_definition_id", "time"],
        # Without Arrow's own schema every reader takes the columns for what Parquet says that they are.
        store_schema=False,
        column_encoding=_TIMES | (_SPLIT if way.byte_stream_split and "value" in schema.names else {}),
    )


def _close_quietly(writer: pq.ParquetWriter) -> None:
    """A writer that could not write can't end its file either."""
    try:
        writer.close()
    except OSError:
        return


def events_table(found: Sequence[data_pb2.Event], identity: str, number: int) -> pa.Table:
    count = len(found)
    return pa.Table.from_arrays(
        [
            pa.array([identity] * count),
            pa.array([number] * count, pa.int64()),
            pa.array([one.event_definition_id for one in found], pa.int32()),
            pa.array([one.timestamp for one in found], pa.int64()),
            pa.array([one.app_name for one in found], pa.string()),
            pa.array([one.status_text for one in found], pa.string()),
            pa.array([list(one.raw_data) for one in found], EVENTS.field("raw_data").type),
        ],
        schema=EVENTS,
    )
