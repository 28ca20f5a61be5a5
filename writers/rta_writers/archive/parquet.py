"""Writes entries of one session as Parquet files: samples, events, and the messages that they came in.

Samples are gathered into chunks. In a chunk they are sorted by channel, and a chunk is written as several row groups,
so that the statistics of a row group tell which channels and times it can hold. Arrow writes the files: it keeps
every bit of a double, and a value that crosses Spark's rows on the way would cost ten times as much.
"""

import concurrent.futures
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rta_wire import archive_spec, content_digest
from rta_wire.archive import names
from rta_wire.archive import samples as archive_samples
from rta_wire.codec.decode import DecodedMessages
from rta_wire.pb import data_pb2
from rta_wire.stream.cursor import StreamEntry
from rta_writers.archive import rows as archive_rows
from rta_writers.read.channels import ChannelNames

CHUNK_ROWS: Final = 1 << 20
"""Samples that are sorted together: what a task holds in memory, about 100 bytes each."""

ROW_GROUP_ROWS: Final = 1 << 17
EVENTS_PER_GROUP: Final = 65_536

_DELTAS: Final = (
    "stream_session_id",
    "channel",
    "time",
    "entry_ms",
    "entry_seq",
    "position",
    "chunk",
    "samples",
    "step",
)
"""Columns of whole numbers whose differences are small."""

_STATISTICS: Final = ("channel", "event_definition_id", "time", "entry_ms")
"""Readers skip rows by these; the least and the most of the others would cost as much as writing them."""

_KINDS: Final = ("samples", "events", "messages")


class ParquetOptions(msgspec.Struct, frozen=True):
    """How files are compressed and encoded."""

    level: int = 3
    byte_stream_split: bool = False
    """Bytes of doubles beside bytes of the same weight: much shorter after zstd, but Spark reads it from 4.3 on."""


class WrittenRows(msgspec.Struct):
    """What was written of one kind: digest, and the lowest and the highest time."""

    digest: content_digest.Digest = content_digest.Digest()
    start_ns: int | None = None
    end_ns: int | None = None

    def add(self, digest: content_digest.Digest, start_ns: int, end_ns: int) -> None:
        self.digest = self.digest.sum_of(digest)
        self.start_ns = start_ns if self.start_ns is None else min(self.start_ns, start_ns)
        self.end_ns = end_ns if self.end_ns is None else max(self.end_ns, end_ns)


class SessionFiles:
    """Files of one session that one task writes: at most one of each kind.

    Their names are new in each attempt: only files that are in the result of a task count.
    """

    def __init__(self, folder: Path, number: int, session: archive_rows.SessionLayout, options: ParquetOptions) -> None:
        self.written = {kind: WrittenRows() for kind in _KINDS}
        self._folder = folder
        self._number = number
        self._session = session
        self._options = options
        self._token = uuid.uuid4().hex
        self._chunk = 0
        self._waiting: list[archive_samples.TypedPart] = []
        self._waiting_rows = 0
        self._messages = archive_rows.MessageCollector(session.layouts)
        self._names = ChannelNames(session.channels)
        self._events: list[data_pb2.Event] = []
        self._event_places: list[tuple[str, int]] = []
        self._writers: dict[str, pq.ParquetWriter] = {}
        # One chunk ahead: the next one is decoded and sorted while Arrow writes this one, which takes about as long.
        self._executor = concurrent.futures.ThreadPoolExecutor(1)
        self._writing: concurrent.futures.Future[None] | None = None

    def add(self, entries: Sequence[StreamEntry], decoded: DecodedMessages) -> None:
        """Take what some entries hold. Full chunks are written."""
        self._messages.add(decoded.fields, entries, self._chunk)
        self._waiting += decoded.samples
        self._waiting_rows += sum(len(samples.times_ns) for _, _, samples in decoded.samples)
        self._events += decoded.events
        self._event_places += [(entries[burst].id, position) for burst, position in decoded.event_places]
        if self._waiting_rows >= CHUNK_ROWS:
            self._write_samples()
        if len(self._events) >= EVENTS_PER_GROUP:
            self._write_events()

    def close(self, first_id: str, last_id: str) -> list[archive_spec.ArchiveFile]:
        """Write the rest. Gives the files, which hold entries between these ids."""
        try:
            self._write_samples()
            self._write_events()
            self._wait_for_write()
            self._write_messages()
        finally:
            self._executor.shutdown()
        for writer in self._writers.values():
            writer.close()
        return [
            archive_spec.ArchiveFile(
                *(kind, self._name(kind), self.written[kind].digest.rows, first_id, last_id),
                *(self.written[kind].start_ns, self.written[kind].end_ns),
            )
            for kind in self._writers
        ]

    def discard(self) -> None:
        """Remove all files."""
        self._executor.shutdown()
        for kind, writer in self._writers.items():
            _close_quietly(writer)
            (self._folder / self._name(kind)).unlink(missing_ok=True)

    def _name(self, kind: str) -> str:
        return names.data_file(kind, self._session.part, self._token)

    def _write_samples(self) -> None:
        if self._waiting:
            samples = archive_samples.sort_chunk(self._waiting)
            # Of the decoded rows, before Arrow has them: files are read back and compared with it.
            times = samples.times_ns
            self.written["samples"].add(samples.digest(), int(times.min()), int(times.max()))
            table = archive_rows.samples_table(samples, self._session.identity, self._number, self._names)
            self._wait_for_write()
            self._writing = self._executor.submit(self._write, "samples", table)
            self._chunk += 1
        self._waiting, self._waiting_rows = [], 0

    def _wait_for_write(self) -> None:
        if self._writing is not None:
            self._writing.result()
        self._writing = None

    def _write_messages(self) -> None:
        messages = self._messages.drain()
        if messages is not None:
            starts = messages.times_ns
            self.written["messages"].add(messages.digest(), int(starts.min()), int(starts.max()))
            self._write("messages", archive_rows.messages_table(messages, self._session.identity, self._number))

    def _write_events(self) -> None:
        events, places = self._events, self._event_places
        if events:
            self._wait_for_write()
            times = [event.timestamp for event in events]
            digest = content_digest.of_events(
                (event.event_definition_id, event.timestamp, event.app_name, event.status_text, event.raw_data)
                for event in events
            )
            self.written["events"].add(digest, min(times), max(times))
            self._write("events", archive_rows.events_table(events, places, self._session.identity, self._number))
        self._events, self._event_places = [], []

    def _write(self, kind: str, table: pa.Table) -> None:
        if kind not in self._writers:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._writers[kind] = _open_writer(self._folder / self._name(kind), table.schema, self._options)
        self._writers[kind].write_table(table, row_group_size=ROW_GROUP_ROWS)


def _open_writer(path: Path, schema: pa.Schema, options: ParquetOptions) -> pq.ParquetWriter:
    dictionaries = [
        field.name for field in schema if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type)
    ]
    encodings = {name: "DELTA_BINARY_PACKED" for name in _DELTAS if name in schema.names}
    if options.byte_stream_split and "value" in schema.names:
        encodings["value"] = "BYTE_STREAM_SPLIT"
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=options.level,
        use_dictionary=dictionaries,
        write_statistics=[name for name in _STATISTICS if name in schema.names],
        # Without Arrow's own schema every reader takes the columns for what Parquet says that they are.
        store_schema=False,
        # A flipped bit is found when its page is read.
        write_page_checksum=True,
        column_encoding=encodings,
    )


def _close_quietly(writer: pq.ParquetWriter) -> None:
    """Close a writer that may be unable to write the end of its file, as after a full disk."""
    try:
        writer.close()
    except OSError:
        return
