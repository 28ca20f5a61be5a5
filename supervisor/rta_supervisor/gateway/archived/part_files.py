"""Makes entries of the files of an archived part: bursts with the messages that the stream had, under its ids.

Session JSON and time ranges are not among them: the archive does not keep them by entry. All functions block.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import lz4.block
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rta_wire import entry_ids
from rta_wire.archive import messages as archive_messages
from rta_wire.archive import names, schema
from rta_wire.archive import samples as archive_samples
from rta_wire.archive.manifest import PartManifest
from rta_wire.archive.messages import MessageColumns
from rta_wire.archive.samples import ArchivedSamples
from rta_wire.arrays import I64
from rta_wire.codec import event_messages
from rta_wire.pb import stream_pb2
from rta_wire.stream.cursor import StreamEntry

EVENT_COLUMNS: Final = ("event_definition_id", "time", "app_name", "status_text", "raw_data")
PLACE_COLUMNS: Final = ("entry_ms", "entry_seq", "position")

Message = tuple[tuple[int, int], int, stream_pb2.StreamData]
"""The id of an entry, the index in its burst, and the message."""


class ArchivedRange(NamedTuple):
    """Entries after one id, up to and with another, all of the session that the part has there."""

    after: str
    until: str
    entries: list[StreamEntry]


def read_range(folder: Path, part: PartManifest, after: str, until: str) -> ArchivedRange:
    """The next entries of a part after an id: those of one chunk of samples, with the events between them.

    It may have entries from before `after`, which belong to the same chunk. Where there are no samples any more, it is
    all that is left up to `until`.
    """
    for file in sorted(part.files_of("samples"), key=lambda file: entry_ids.parse(file.first_id or entry_ids.MIN)):
        if file.last_id and not entry_ids.is_after(file.last_id, after):
            continue
        path = folder / names.messages_of(file.name)
        if not path.exists():
            # Archived by a version that kept samples only.
            continue
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            messages = MessageColumns.from_table(parquet.read())
        wanted = np.flatnonzero(messages.within(after, until))
        if not len(wanted):
            continue
        number = int(messages.chunks[wanted[0]])
        chunk = messages.chunk(number)
        first, last = ((int(chunk.entry_ms[at]), int(chunk.entry_seq[at])) for at in (0, -1))
        # Events before the first sample that is wanted come along.
        begin = min(after, entry_ids.previous_id(entry_ids.format_id(*first)), key=entry_ids.parse)
        end = entry_ids.format_id(*last)
        rows = _chunk_rows(folder / file.name, messages, number)
        found = [
            (entry_ids.parse(entry_id), position, message)
            for entry_id, position, message in archive_messages.rebuild(chunk, rows)
        ]
        found += _events(folder, part, begin, end)
        return ArchivedRange(begin, end, _entries(found, part.stream_session_id))
    return ArchivedRange(after, until, _entries(_events(folder, part, after, until), part.stream_session_id))


def _chunk_rows(path: Path, messages: MessageColumns, number: int) -> ArchivedSamples:
    """All rows of a chunk. Chunks stand one behind the other, each in row groups of its own."""
    rows_of: I64 = np.zeros(int(messages.chunks.max()) + 1, np.int64)
    widths = np.array([len(channels) for channels in messages.sets] or [1], np.int64)
    is_row = messages.row_sets >= 0
    rows = np.where(is_row, widths[messages.row_sets], messages.samples)
    np.add.at(rows_of, messages.chunks, rows)
    first = int(rows_of[:number].sum())
    last = first + int(rows_of[number])
    with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.metadata.num_row_groups)]
        ends = np.cumsum(sizes)
        groups = np.flatnonzero((ends > first) & (ends - sizes < last)).tolist()
        table = parquet.read_row_groups(groups, columns=list(schema.READ_COLUMNS)).combine_chunks()
    before = int(ends[groups[0]] - sizes[groups[0]])
    [batch] = table.slice(first - before, last - first).to_batches() or [None]
    if batch is None or batch.num_rows != last - first:
        raise pa.ArrowInvalid(f"{path} has fewer rows than its table of messages")
    return archive_samples.columns(batch)


def _events(folder: Path, part: PartManifest, after: str, until: str) -> Iterator[Message]:
    """Events of entries after one id, up to and with another."""
    for file in part.files_of("events"):
        if file.rows and (not file.last_id or entry_ids.is_after(file.last_id, after)):
            path = folder / file.name
            with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
                if not set(PLACE_COLUMNS) <= set(parquet.schema_arrow.names):
                    continue
                table = parquet.read(columns=[*EVENT_COLUMNS, *PLACE_COLUMNS])
            yield from _placed(table, after, until)


def _placed(table: Any, after: str, until: str) -> Iterator[Message]:
    milliseconds, sequences = (table.column(name).to_numpy() for name in PLACE_COLUMNS[:2])
    chosen = table.filter(pa.array(archive_messages.ids_within(milliseconds, sequences, after, until)))
    places = zip(*(chosen.column(name).to_pylist() for name in PLACE_COLUMNS), strict=True)
    events = event_messages.from_batches(chosen.to_batches())
    for (entry_ms, entry_seq, position), event in zip(places, events, strict=True):
        yield (entry_ms, entry_seq), position, stream_pb2.StreamData(event=event)


def _entries(found: "list[Message] | Iterator[Message]", number: int) -> list[StreamEntry]:
    bursts: defaultdict[tuple[int, int], list[tuple[int, stream_pb2.StreamData]]] = defaultdict(list)
    for entry_id, position, message in found:
        bursts[entry_id].append((position, message))
    return [
        StreamEntry(entry_ids.format_id(*entry_id), number, _block([item for _, item in sorted(items, key=_position)]))
        for entry_id, items in sorted(bursts.items(), key=lambda burst: burst[0])
    ]


def _position(item: tuple[int, stream_pb2.StreamData]) -> int:
    return item[0]


def _block(items: list[stream_pb2.StreamData]) -> bytes:
    raw = stream_pb2.StreamDataBurst(data=items).SerializeToString()
    block: bytes = lz4.block.compress(raw, store_size=False)
    return block
