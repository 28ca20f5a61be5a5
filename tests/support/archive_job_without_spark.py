"""The job of the archive without Spark: the same tasks, one after the other, in this process.

What Spark adds is bringing entries together; everything before and after is the real thing. Run as a program it is
`rta-supervisor`, and ends itself with SIGKILL at the step that RTA_TEST_KILL_AT names.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from rta_supervisor.archive import finalize, folders, spark_process
from rta_supervisor.cli import entry as cli_entry
from rta_supervisor.control import client as control_client
from rta_wire import archive_spec, errors
from rta_writers.archive import job as archive_job
from rta_writers.archive import parquet, recount
from rta_writers.options import read as options_read

STEPS: Final = ("begun", "written", "verified", "renaming", "renamed", "noted")


def run_job(spec: archive_spec.ArchiveSpec, staging: Path) -> Iterator[archive_spec.JobEvent]:
    """In place of `spark_process.run_job`."""
    assert spec.folder == str(staging)
    for number, one_pass in enumerate(spec.passes):
        reached("begun")
        results = tuple(run(spec, one_pass))
        reached("written")
        yield archive_spec.JobProgress(number, 0.5)
        yield archive_spec.PassWritten(number, {result.stream_session_id: result.files for result in results})
        yield archive_spec.PassDone(number, results)


def run(order: archive_spec.ArchiveSpec, one: archive_spec.PassSpec) -> list[archive_spec.SessionResult]:
    wanted = {number: found for stream in one.streams for number, found in archive_job.session_layouts(stream).items()}
    files: dict[int, list[archive_spec.ArchiveFile]] = {}
    problems: dict[int, str] = {}
    counted: dict[int, recount.SessionRecount] = {}
    for stream in one.streams:
        given = archive_job.reader_options(order, stream)
        read = archive_job.entries_reader(options_read.ReadOptions.parse(given))
        batches = [batch for part in read.partitions() for batch in read.read(part)]
        ours = [batch for batch in batches if batch.column("stream_session_id")[0].as_py() in stream.sessions]
        ours.sort(key=lambda batch: batch.column("stream_session_id")[0].as_py())
        for told in parquet.ParquetTask(order.folder, wanted)(iter(ours)):
            for row in told.to_pylist():
                session = row["stream_session_id"]
                if row["kind"] == parquet.UNWRITABLE:
                    raise errors.ArchiveUnwritable(path=order.folder, reason=row["file"])
                if row["kind"] == parquet.BROKEN:
                    problems[session] = row["file"]
                else:
                    files.setdefault(session, []).append(
                        archive_spec.ArchiveFile(row["kind"], row["file"], row["rows"])
                    )
        counted |= recount.recount_sessions(ours, wanted)
    return [
        archive_job.session_result(
            number, counted.get(number, recount.SessionRecount()), files.get(number, []), problems.get(number, "")
        )
        for number in wanted
    ]


def reached(step: str) -> None:
    """Ends the process here where it was told to."""
    assert step in STEPS
    if os.environ.get("RTA_TEST_KILL_AT") == step:
        os.kill(os.getpid(), signal.SIGKILL)


def _then(function: Callable[..., Any], *, before: str | None = None, after: str | None = None) -> Callable[..., Any]:
    def stepping(*words: Any) -> Any:
        if before is not None:
            reached(before)
        found = function(*words)
        if after is not None:
            reached(after)
        return found

    return stepping


async def _ask(self: control_client.OperatorClient, request: Any) -> Any:
    found = await _asked(self, request)
    reached("noted")
    return found


_asked = control_client.OperatorClient.request


if __name__ == "__main__":
    spark_process.run_job = run_job
    finalize.build_manifest = _then(finalize.build_manifest, after="verified")
    folders.move_into_place = _then(folders.move_into_place, before="renaming", after="renamed")
    control_client.OperatorClient.request = _ask  # type: ignore[method-assign]
    sys.exit(cli_entry.main())
