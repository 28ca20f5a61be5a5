"""The blocks of a session that are in the archive: row groups of its Parquet files, read where they lie.

What a folder holds is decided by `rta_wire.archive`. All functions block, and are called in worker threads.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rta_supervisor.gateway.rest.data.time_index import Block, TimeSpan
from rta_wire import entry_ids, limits
from rta_wire.archive import names, schema
from rta_wire.archive import samples as archive_samples
from rta_wire.archive.folder import SessionArchive
from rta_wire.archive.manifest import PartManifest
from rta_wire.archive.samples import ArchivedSamples
from rta_wire.codec import event_messages
from rta_wire.codec.layout import Plan
from rta_wire.codec.scan.sample_columns import SampleColumns
from rta_wire.pb import data_pb2

READ_ERRORS: Final = (OSError, pa.ArrowInvalid, pa.ArrowIOError, pa.ArrowKeyError)
_ANY_TIME: Final = TimeSpan(limits.TIME_NS_MIN, limits.TIME_NS_MAX)

OnDamaged = Callable[[str, str], None]
"""Called with the path of a file that can't be read, and why."""


class ArchiveBlock(Block, frozen=True, kw_only=True, eq=False):
    """A row group of one file, with samples or with events."""

    path: str
    row_group: int = 0


class ArchivedData(msgspec.Struct, frozen=True):
    """What the archive has of a session, and which entries have to come from the stream."""

    blocks: tuple[Block, ...] = ()
    stream_ranges: tuple[tuple[str, str], ...] = ((entry_ids.MIN, entry_ids.MAX),)
    """Each after one id, up to another."""
    is_whole: bool = False
    """Whether the session is closed and all of it is here."""
    folder: str = ""
    message_files: tuple[str, ...] = ()
    """What the messages of the samples were."""

    @property
    def stream_after(self) -> str:
        """The id after which entries of the stream may be needed."""
        return self.stream_ranges[0][0]


NOTHING: Final = ArchivedData()


def folder_version(folder: Path) -> tuple[tuple[str, int], ...]:
    """What changes when the archive of a session does: its manifests, and when they were written."""
    try:
        return tuple(
            sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir() if names.is_manifest(path.name))
        )
    except OSError:
        return ()


def read_folder(folder: Path, identity: str, manifests: Sequence[str], on_damaged: OnDamaged) -> ArchivedData:
    """The blocks of a folder. A part that can't be read leaves a hole, which the stream may have."""
    contents = {name: (folder / name).read_bytes() for name in manifests}
    archive = SessionArchive.parse(identity, contents, str(folder))
    blocks: list[Block] = []
    for part in archive.sound_parts:
        try:
            blocks += _part_blocks(folder, part)
        except READ_ERRORS as error:
            on_damaged(str(folder), str(error))
            archive = archive.with_damaged(part.number, str(error))
    segments = list(archive.segments(entry_ids.MIN))
    holes = [(segment.after, segment.until) for segment in segments if segment.part is None]
    ranges = [*holes, (archive.until, entry_ids.MAX)]
    is_whole = archive.whole is not None and not holes and not archive.lost_end
    messages = [str(folder / file.name) for part in archive.sound_parts for file in part.files_of("messages")]
    return ArchivedData(tuple(blocks), tuple(ranges), is_whole, str(folder), tuple(messages))


def _part_blocks(folder: Path, part: PartManifest) -> list[Block]:
    return [
        block
        for file in part.files
        for block in (
            _sample_blocks(folder / file.name)
            if file.kind == "samples"
            else event_blocks(folder / file.name)
            if file.kind == "events" and file.rows
            else ()
        )
    ]


def _sample_blocks(path: Path) -> Iterator[ArchiveBlock]:
    for number, group, columns in _row_groups(path):
        channels = group.column(columns.index("channel")).statistics
        has_channels = channels is not None and channels.has_min_max
        yield ArchiveBlock(
            after="",
            until="",
            samples=group.num_rows,
            sample_span=_span(group, columns),
            channels=None,
            channel_range=(channels.min, channels.max) if has_channels else None,
            path=str(path),
            row_group=number,
        )


def event_blocks(path: Path) -> Iterator[ArchiveBlock]:
    """The row groups of a file with events."""
    for number, group, columns in _row_groups(path):
        span = _span(group, columns)
        yield ArchiveBlock(after="", until="", events=group.num_rows, event_span=span, path=str(path), row_group=number)


def _row_groups(path: Path) -> Iterator[tuple[int, Any, list[str]]]:
    """The row groups of a file, by number, and the names of their columns."""
    with pq.ParquetFile(path) as file:
        metadata = file.metadata
    columns = [metadata.schema.column(index).name for index in range(metadata.num_columns)]
    for number in range(metadata.num_row_groups):
        yield number, metadata.row_group(number), columns


def _span(group: Any, columns: Sequence[str]) -> TimeSpan:
    times = group.column(columns.index("time")).statistics
    return TimeSpan(times.min, times.max) if times is not None and times.has_min_max else _ANY_TIME


def read_samples(block: ArchiveBlock, layouts: Plan) -> list[SampleColumns]:
    """The samples of a row group, each in the type of its channel."""
    with pq.ParquetFile(block.path, page_checksum_verification=True) as file:
        table = file.read_row_group(block.row_group, columns=list(schema.READ_COLUMNS))
    return [
        columns
        for batch in table.combine_chunks().to_batches()
        for columns in _by_type(archive_samples.columns(batch), layouts)
    ]


def _by_type(rows: ArchivedSamples, layouts: Plan) -> Iterator[SampleColumns]:
    if not len(rows.channels):
        return
    channels = rows.channels
    if (channels[1:] < channels[:-1]).any():
        rows = rows.take(np.argsort(channels, kind="stable"))
        channels = rows.channels
    starts = np.flatnonzero(np.r_[True, channels[1:] != channels[:-1]])
    ids = channels[starts].astype(np.uint32)
    types = [layouts.layouts[code].type for code in layouts.codes(ids).tolist()]
    stops = np.r_[starts[1:], len(channels)]
    for sample_type in dict.fromkeys(types):
        chosen = [run for run, run_type in enumerate(types) if run_type is sample_type]
        part = rows
        if len(chosen) < len(types):
            part = rows.take(np.concatenate([np.arange(starts[run], stops[run]) for run in chosen]))
        offsets = np.r_[0, np.cumsum([stops[run] - starts[run] for run in chosen])]
        yield SampleColumns(ids[chosen], offsets, part.times_ns, part.typed_values(sample_type))


def read_events(block: ArchiveBlock, start_ns: int, end_ns: int) -> list[data_pb2.Event]:
    """The events of a row group in a range of time: each is an object of its own, and there may be many."""
    columns = ["event_definition_id", "time", "app_name", "status_text", "raw_data"]
    with pq.ParquetFile(block.path, page_checksum_verification=True) as file:
        table = file.read_row_group(block.row_group, columns=columns)
    times = table.column("time").to_numpy()
    table = table.filter(pa.array((times >= start_ns) & (times <= end_ns)))
    return list(event_messages.from_batches(table.to_batches()))
