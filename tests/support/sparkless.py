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

from rta_supervisor import cli
from rta_supervisor.archive import finishing, folders, job, orders, running
from rta_supervisor.commands import requesting
from rta_wire import errors
from rta_writers import archiving, reading, source_read

STEPS: Final = ("begun", "written", "verified", "renaming", "renamed", "noted")


def answers(order: orders.Order, aside: Path) -> Iterator[orders.Answer]:
    """In place of `running.answers`."""
    assert order.folder == str(aside)
    for number, one in enumerate(order.passes):
        reached("begun")
        outcomes = tuple(run(order, one))
        reached("written")
        yield orders.Progress(number, 0.5)
        yield orders.Written(number, {one.stream_session_id: one.files for one in outcomes})
        yield orders.PassDone(number, outcomes)


def run(order: orders.Order, one: orders.Pass) -> list[orders.Outcome]:
    wanted = {number: found for stream in one.streams for number, found in job._wanted(stream).items()}
    files: dict[int, list[orders.File]] = {}
    problems: dict[int, str] = {}
    counted: dict[int, archiving.Held] = {}
    for stream in one.streams:
        given = job._given(order, stream)
        read = source_read.BatchReader(given, source_read.schema_of(reading.Options.read(given)))
        batches = [batch for part in read.partitions() for batch in read.read(part)]
        ours = [batch for batch in batches if batch.column("stream_session_id")[0].as_py() in stream.sessions]
        ours.sort(key=lambda batch: batch.column("stream_session_id")[0].as_py())
        for told in archiving.Writer(order.folder, wanted)(iter(ours)):
            for row in told.to_pylist():
                session = row["stream_session_id"]
                if row["kind"] == archiving.UNWRITABLE:
                    raise errors.ArchiveUnwritable(path=order.folder, reason=row["file"])
                if row["kind"] == archiving.BROKEN:
                    problems[session] = row["file"]
                else:
                    files.setdefault(session, []).append(orders.File(row["kind"], row["file"], row["rows"]))
        counted |= archiving.held(ours, wanted)
    return [
        job._outcome(number, counted.get(number, archiving.Held()), files.get(number, []), problems.get(number, ""))
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


async def _ask(self: requesting.Asker, request: Any) -> Any:
    found = await _asked(self, request)
    reached("noted")
    return found


_asked = requesting.Asker.ask


if __name__ == "__main__":
    running.answers = answers
    finishing.verified = _then(finishing.verified, after="verified")
    folders.put = _then(folders.put, before="renaming", after="renamed")
    requesting.Asker.ask = _ask  # type: ignore[method-assign]
    sys.exit(cli.main())
