"""What a task of the archive job does: reads a range of a stream and writes the entries of its sessions as files.

Entries go from Redis to files inside one Python process: Spark distributes ranges and collects results.
"""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rta_wire import archive_spec, content_digest, entry_ids, errors
from rta_wire.archive import names
from rta_wire.codec import decode
from rta_wire.stream.cursor import StreamEntry
from rta_writers.archive import parquet
from rta_writers.archive.rows import SessionLayout, SessionLayouts

ENTRIES_PER_DECODE: Final = 128
GATHERED_BYTES: Final = 64 << 20
"""Stored bytes that a task gathers before it writes them, session after session: about 16 million samples."""

UNWRITABLE: Final = "unwritable: "
"""Before the reason of a result where the folder can't be written, which ends the run and not only the session."""


class SessionOutput(msgspec.Struct, frozen=True):
    """What a task read of one session, and the files that it made of it."""

    entries: content_digest.Digest = content_digest.Digest()
    hashes: tuple[content_digest.EntryHashes, ...] = ()
    """Of the same entries, each by itself."""
    size_bytes: int = 0
    first_id: str = ""
    last_id: str = ""
    begins_with_json: bool = False
    digests: dict[str, content_digest.Digest] = {}
    """Of decoded rows, by kind: samples, events, messages."""
    files: tuple[archive_spec.ArchiveFile, ...] = ()
    problem: str = ""

    def sum_of(self, other: "SessionOutput") -> "SessionOutput":
        """The outputs of two tasks together."""
        if not self.first_id or not other.first_id:
            return self if self.first_id else other
        first = min(self, other, key=lambda output: entry_ids.parse(output.first_id))
        last = max(self, other, key=lambda output: entry_ids.parse(output.last_id))
        nothing = content_digest.Digest()
        return SessionOutput(
            self.entries.sum_of(other.entries),
            self.hashes + other.hashes,
            self.size_bytes + other.size_bytes,
            first.first_id,
            last.last_id,
            first.begins_with_json,
            {
                kind: self.digests.get(kind, nothing).sum_of(other.digests.get(kind, nothing))
                for kind in {**self.digests, **other.digests}
            },
            self.files + other.files,
            self.problem or other.problem,
        )

    def trimmed_since(self, counted: "SessionOutput", first_id: str | None) -> content_digest.Digest:
        """Of the entries that are not among those that were counted later because they were trimmed meanwhile: the
        stream begins behind them. `first_id`: where it begins, None where there is no stream any more."""
        if self.entries == counted.entries or first_id is None:
            return content_digest.Digest()
        return _joined(self.hashes).without(_joined(counted.hashes)).below(first_id).digest


class ArchiveTask(msgspec.Struct, frozen=True):
    """Writes entries of sessions below a folder, in which each session has one named by its stream session id."""

    folder: str
    sessions: SessionLayouts
    options: parquet.ParquetOptions = parquet.ParquetOptions()

    def write(self, pages: Iterable[Sequence[StreamEntry]]) -> Iterator[tuple[int, SessionOutput]]:
        """Files of the entries that are wanted, and an output for each session, or several where it is large."""
        if len(self.sessions) == 1:
            # Nothing to gather: entries are decoded and written while the next ones are read.
            [(number, session)] = self.sessions.items()
            entries = wanted_entries(itertools.chain.from_iterable(pages), self.sessions)
            yield number, self._write_session(number, session, entries)
            return
        gathered: dict[int, list[StreamEntry]] = {}
        size = 0
        for page in pages:
            for entry in wanted_entries(page, self.sessions):
                gathered.setdefault(entry.stream_session_id, []).append(entry)
                size += len(entry.data)
            if size >= GATHERED_BYTES:
                yield from self._write_gathered(gathered)
                gathered, size = {}, 0
        yield from self._write_gathered(gathered)

    def _write_gathered(self, gathered: dict[int, list[StreamEntry]]) -> Iterator[tuple[int, SessionOutput]]:
        for number, entries in gathered.items():
            yield number, self._write_session(number, self.sessions[number], iter(entries))

    def _write_session(self, number: int, session: SessionLayout, entries: Iterator[StreamEntry]) -> SessionOutput:
        files = parquet.SessionFiles(Path(self.folder) / str(number), number, session, self.options)
        output = SessionOutput()
        try:
            # Outside of what belongs to the session alone: Redis may be lost here.
            while page := list(itertools.islice(entries, ENTRIES_PER_DECODE)):
                output = _add_page(files, session, output, page)
        except BaseException:
            files.discard()
            raise
        return _close(files, output)


def _add_page(
    files: parquet.SessionFiles, session: SessionLayout, output: SessionOutput, page: Sequence[StreamEntry]
) -> SessionOutput:
    """The output with some more entries, which are written too unless something went wrong before."""
    page_output = read_output(page)
    with _problems() as problems:
        if not output.first_id:
            opening = decode.burst(page[0].data, session.framing)
            begins_with_json = bool(opening.data) and bool(opening.data[0].session_json)
            page_output = msgspec.structs.replace(page_output, begins_with_json=begins_with_json)
        if not output.problem:
            files.add(page, session.decode(page))
    return output.sum_of(msgspec.structs.replace(page_output, problem="".join(problems)))


def _close(files: parquet.SessionFiles, output: SessionOutput) -> SessionOutput:
    """The output with its files; without any where something went wrong."""
    problems = [output.problem] if output.problem else []
    written: list[archive_spec.ArchiveFile] = []
    if not problems:
        with _problems() as problems:
            written = files.close(output.first_id, output.last_id)
    if problems:
        files.discard()
        return msgspec.structs.replace(output, problem=problems[0])
    digests = {kind: rows.digest for kind, rows in files.written.items()}
    return msgspec.structs.replace(output, digests=digests, files=tuple(written))


@contextlib.contextmanager
def _problems() -> Iterator[list[str]]:
    """A list that has, after the block, why a session or its folder could not be written."""
    problems: list[str] = []
    try:
        yield problems
    except errors.RtaError as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{UNWRITABLE}{names.describe_os_error(error)}")


def wanted_entries(page: Iterable[StreamEntry], sessions: SessionLayouts) -> Iterator[StreamEntry]:
    """Entries of the sessions that are archived, without those that an earlier part has."""
    for entry in page:
        session = sessions.get(entry.stream_session_id)
        if session is not None and entry_ids.is_after(entry.id, session.after):
            yield entry


def read_output(entries: Sequence[StreamEntry]) -> SessionOutput:
    """What was read of one session, without files."""
    hashes = content_digest.EntryHashes.of((entry.id, entry.data) for entry in entries)
    return SessionOutput(
        hashes.digest,
        (hashes,),
        sum(len(entry.data) for entry in entries),
        entries[0].id,
        entries[-1].id,
    )


def count_entries(
    pages: Iterable[Sequence[StreamEntry]], sessions: SessionLayouts
) -> Iterator[tuple[int, SessionOutput]]:
    """What a range of a stream holds of sessions: numbers, sizes and digests of stored entries, nothing decoded."""
    for page in pages:
        by_session: dict[int, list[StreamEntry]] = {}
        for entry in wanted_entries(page, sessions):
            by_session.setdefault(entry.stream_session_id, []).append(entry)
        for number, entries in by_session.items():
            yield number, read_output(entries)


def _joined(hashes: Iterable[content_digest.EntryHashes]) -> content_digest.EntryHashes:
    return content_digest.EntryHashes(b"".join(part.rows for part in hashes))


def total(outputs: Iterable[tuple[int, SessionOutput]]) -> dict[int, SessionOutput]:
    """Outputs of many tasks, together for each session."""
    totals: dict[int, SessionOutput] = {}
    for number, output in outputs:
        totals[number] = totals.get(number, SessionOutput()).sum_of(output)
    return totals
