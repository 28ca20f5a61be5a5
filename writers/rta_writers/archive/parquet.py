"""What a task of the archive job does: writes entries of sessions as Parquet files.

A task gets whole entries, session after session. It decodes them and writes files with Arrow, which keeps every bit of
a double; a value that crosses Spark's rows on the way costs ten times as much.
"""

import concurrent.futures
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rta_wire import errors
from rta_wire.codec.decode import DecodedBursts
from rta_wire.pb import data_pb2
from rta_wire.stream.cursor import StreamEntry
from rta_writers.archive import rows as archive_rows

ENTRIES_PER_DECODE: Final = 128
ROW_GROUP_ROWS: Final = 1 << 20
"""Rows of a row group: what a task holds in memory, about 60 bytes a row."""

FILE_ROWS: Final = 32 * ROW_GROUP_ROWS
EVENTS_PER_GROUP: Final = 65_536

RESULT_SCHEMA: Final = "stream_session_id bigint, kind string, file string, rows bigint"
"""Columns of the result of a task: a row for each file. `BROKEN` and `UNWRITABLE` are kinds too, with the reason in
place of the file."""

BROKEN: Final = "broken"
UNWRITABLE: Final = "unwritable"

_TIME_ENCODING: Final = {"time": "DELTA_BINARY_PACKED"}
_SPLIT_ENCODING: Final = {"value": "BYTE_STREAM_SPLIT"}
"""Bytes of doubles beside bytes of the same weight: much shorter after zstd, but Spark reads it from 4.3 on."""


class ParquetOptions(msgspec.Struct, frozen=True):
    """How files are compressed and encoded."""

    level: int = 3
    byte_stream_split: bool = False


class ParquetTask:
    """The function that `mapInArrow` calls in each task: takes entries, writes files, gives a row for each file."""

    def __init__(
        self,
        folder: str,
        sessions: Mapping[int, archive_rows.SessionLayout],
        options: ParquetOptions | None = None,
    ) -> None:
        """`sessions` are by stream session id. Each has a folder of that name in `folder`."""
        self._folder = folder
        self._sessions = dict(sessions)
        self._options = options or ParquetOptions()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results: list[tuple[int, str, str, int]] = []
        for number, pages in _by_session(batches):
            session = self._sessions[number]
            files = _SessionFiles(Path(self._folder) / str(number), session.identity, number, self._options)
            try:
                for entries in pages:
                    files.add(session.decode(entries))
                results += [(number, *file) for file in files.close()]
            except errors.RtaError as error:
                files.discard()
                results.append((number, BROKEN, str(error), 0))
                for _ in pages:
                    pass
            except OSError as error:
                files.discard()
                results.append((number, UNWRITABLE, error.strerror or str(error), 0))
                break
        columns = zip(*results, strict=True) if results else [[], [], [], []]
        types = (pa.int64(), pa.string(), pa.string(), pa.int64())
        names = ("stream_session_id", "kind", "file", "rows")
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _by_session(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[list[StreamEntry]]]]:
    """Pages of entries, session after session: entries arrive sorted by session."""
    entries = archive_rows.stream_entries(batches)
    entry = next(entries, None)

    def pages(number: int) -> Iterator[list[StreamEntry]]:
        nonlocal entry
        page: list[StreamEntry] = []
        while entry is not None and entry.stream_session_id == number:
            page.append(entry)
            entry = next(entries, None)
            if len(page) == ENTRIES_PER_DECODE:
                yield page
                page = []
        if page:
            yield page

    while entry is not None:
        yield entry.stream_session_id, pages(entry.stream_session_id)


class _SessionFiles:
    """Files of one session that one task writes.

    Their names are new in each attempt: only files that are in the result of a task count.
    """

    def __init__(self, folder: Path, identity: str, number: int, options: ParquetOptions) -> None:
        self._folder = folder
        self._identity = identity
        self._number = number
        self._options = options
        self._waiting: list[archive_rows.LongSamples] = []
        self._waiting_rows = 0
        self._events: list[data_pb2.Event] = []
        self._writers: dict[str, tuple[pq.ParquetWriter, str]] = {}
        self._rows: dict[str, int] = {}
        self._finished: list[tuple[str, str, int]] = []
        # One row group ahead: the next one is decoded while this one is written.
        self._executor = concurrent.futures.ThreadPoolExecutor(1)
        self._writing: concurrent.futures.Future[None] | None = None

    def add(self, decoded: DecodedBursts) -> None:
        """Take samples and events. Full row groups are written."""
        for sample_type, samples in decoded.samples.items():
            self._waiting.append(archive_rows.LongSamples.from_columns(sample_type, samples))
            self._waiting_rows += len(samples.times_ns)
        self._events += decoded.events
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self._write_samples()
        if len(self._events) >= EVENTS_PER_GROUP:
            self._write_events()

    def close(self) -> list[tuple[str, str, int]]:
        """Write the rest. Gives kind, name and rows of each file."""
        self._write_samples()
        self._write_events()
        self._wait_for_write()
        for kind in list(self._writers):
            self._finish_file(kind)
        self._executor.shutdown()
        return self._finished

    def discard(self) -> None:
        """Remove all files."""
        self._executor.shutdown()
        for writer, name in self._writers.values():
            _close_quietly(writer)
            (self._folder / name).unlink(missing_ok=True)
        for _, name, _ in self._finished:
            (self._folder / name).unlink(missing_ok=True)

    def _write_samples(self) -> None:
        if self._waiting:
            self._wait_for_write()
            self._writing = self._executor.submit(self._write_sample_group, self._waiting)
        self._waiting, self._waiting_rows = [], 0

    def _write_sample_group(self, waiting: Sequence[archive_rows.LongSamples]) -> None:
        batches = [samples.batch(self._identity, self._number) for samples in waiting]
        self._write("samples", pa.Table.from_batches(batches, archive_rows.SAMPLES))

    def _wait_for_write(self) -> None:
        if self._writing is not None:
            self._writing.result()
        self._writing = None

    def _write_events(self) -> None:
        if self._events:
            self._wait_for_write()
            self._write("events", archive_rows.events_table(self._events, self._identity, self._number))
        self._events = []

    def _write(self, kind: str, table: pa.Table) -> None:
        if kind not in self._writers:
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"{'part' if kind == 'samples' else kind}-{uuid.uuid4().hex}.parquet"
            self._writers[kind] = _open_writer(self._folder / name, table.schema, self._options), name
            self._rows[kind] = 0
        self._writers[kind][0].write_table(table, row_group_size=len(table))
        self._rows[kind] += len(table)
        if self._rows[kind] >= FILE_ROWS:
            self._finish_file(kind)

    def _finish_file(self, kind: str) -> None:
        writer, name = self._writers[kind]
        writer.close()
        del self._writers[kind]
        self._finished.append((kind, name, self._rows.pop(kind)))


def _open_writer(path: Path, schema: pa.Schema, options: ParquetOptions) -> pq.ParquetWriter:
    is_split = options.byte_stream_split and "value" in schema.names
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=options.level,
        use_dictionary=["identity", "stream_session_id", "channel"],
        # Readers skip rows by these; the least and the most of the others would cost as much as writing them.
        write_statistics=["channel", "event_definition_id", "time"],
        # Without Arrow's own schema every reader takes the columns for what Parquet says that they are.
        store_schema=False,
        column_encoding=_TIME_ENCODING | (_SPLIT_ENCODING if is_split else {}),
    )


def _close_quietly(writer: pq.ParquetWriter) -> None:
    """Close a writer that may be unable to write the end of its file, as after a full disk."""
    try:
        writer.close()
    except OSError:
        return
