"""Parts of a long session, and reads of a little out of it: the code of the archive without Spark around it.

A stream of one session is written before anything is measured. Each part is what a task of the archive job and the
verification do: entries read, decoded, written, read back, compared, moved and named by a manifest.
"""

import functools
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np

from rta_supervisor.archive import finalize, manifest, plan, verify
from rta_supervisor.archive.plan import ArchiveCandidate
from rta_wire import entry_ids
from rta_wire.archive import selection
from rta_wire.codec import encode
from rta_wire.session import State
from rta_wire.stream.cursor import StreamEntry
from rta_wire.stream.live_then_cold import StreamCounters
from rta_writers.archive import job as archive_job
from rta_writers.archive import task as archive_task
from rta_writers.archive.rows import SessionLayout
from rta_writers.read import archive_files

CHANNELS: Final = 100
HOURS: Final = 10
RATE_HZ: Final = 20
PARTS: Final = 40
START_NS: Final = 1_700_000_000_000_000_000
SECOND_NS: Final = 10**9
READS_PER_S: Final = 1 / 0.150
"""The aim: a read takes 150 ms at most."""


def entries_of_part(number: int, seconds: int) -> list[StreamEntry]:
    """The entries of one part of the session, a burst for each of some times."""
    found: list[StreamEntry] = []
    rows = seconds * RATE_HZ
    first = (number - 1) * rows
    times = START_NS + (first + np.arange(rows)) * (SECOND_NS // RATE_HZ)
    channels = np.tile(np.arange(CHANNELS, dtype=np.uint32), rows)
    values = np.round(np.sin(np.arange(rows * CHANNELS) * 1e-3) * 4096) / 16
    bursts = encode.encode_doubles(channels, np.repeat(times, CHANNELS), values)
    for index, burst in enumerate(bursts):
        found.append(StreamEntry(entry_ids.format_id(number * 10**6, index + 1), 1, burst.data))
    return found


class LongSession:
    """A session that is archived part by part."""

    def __init__(self, part_seconds: int) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="rta-bench-"))
        self.rows = part_seconds * RATE_HZ * CHANNELS
        self._seconds = part_seconds
        self._candidate = ArchiveCandidate(
            identity="bench",
            stream="bench",
            stream_session_id=1,
            position="0-0",
            state=State.OPEN,
            version=1,
            opened_ms=START_NS // 10**6,
            updated_ms=START_NS // 10**6,
            samples=0,
            stored_bytes=0,
            document=b"{}",
        )

    def add_part(self) -> float:
        """Archive the next part. Gives how long that took, in seconds."""
        folder = self.path / self._candidate.folder
        number = len(list(folder.glob("part-*.json"))) + 1
        entries = entries_of_part(number, self._seconds)
        staging = Path(tempfile.mkdtemp(dir=self.path))
        started_s = time.perf_counter()
        archive = manifest.read_session(folder, "bench")
        counters = StreamCounters("1-1", entries[-1].id, number, number)
        part = plan.next_part(self._candidate, archive, counters)
        sessions = {1: SessionLayout("bench", encode.Encoder().layouts, after=part.after, part=part.number)}
        written = archive_task.total(archive_task.ArchiveTask(str(staging), sessions).write([entries]))[1]
        counted = archive_task.total(archive_task.count_entries([entries], sessions))[1]
        result = archive_job.session_result(1, written, counted)
        contents = verify.read_files(1, result.files, staging)
        finalize.finalize_part(part, result, contents, staging, self.path)
        took_s = time.perf_counter() - started_s
        shutil.rmtree(staging)
        return took_s

    def read_minute(self) -> float:
        """How long one minute of one channel from the middle takes, in seconds, from the folder on."""
        middle_ns = START_NS + HOURS * 1800 * SECOND_NS
        wanted = selection.SampleFilter(middle_ns, middle_ns + 60 * SECOND_NS - 1, frozenset([37]))
        started_s = time.perf_counter()
        stored = archive_files.find_session(str(self.path), "bench")
        assert stored is not None
        counters = selection.ReadCounters()
        segments = list(stored.archive.segments(entry_ids.MIN))
        ranges = archive_files.plan_ranges(stored, "samples", segments, wanted, counters)
        rows = sum(len(one.times_ns) for part in ranges for one in archive_files.iter_samples(part, wanted, counters))
        took_s = time.perf_counter() - started_s
        assert rows == 60 * RATE_HZ, rows
        return took_s


def part_rate(number: int, *, quick: bool) -> float:
    """Rows a second of the n-th part of a new session."""
    session = LongSession(2 if quick else 450)
    try:
        for _ in range(number - 1):
            session.add_part()
        return session.rows / session.add_part()
    finally:
        shutil.rmtree(session.path)


@functools.cache
def _ten_hours() -> LongSession:
    session = LongSession(HOURS * 3600 // PARTS)
    for _ in range(PARTS):
        session.add_part()
    return session


def read_rate(*, quick: bool) -> float:
    """Reads a second of one minute of one channel."""
    del quick
    return 1 / _ten_hours().read_minute()
