"""The job of the archive without Spark: the same tasks, one after the other, in this process.

What Spark adds is running tasks at several places; everything else is the real thing. Run as a program it is
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
from rta_wire import archive_spec
from rta_writers.archive import job as archive_job

STEPS: Final = ("begun", "written", "verified", "moving", "moved", "part", "whole", "noted")


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
    return archive_job.run_pass(lambda ranges, function: list(function(ranges)), order, one, lambda _: None)


def reached(step: str) -> None:
    """Ends the process here where it was told to."""
    assert step in STEPS
    if os.environ.get("RTA_TEST_KILL_AT") == step:
        os.kill(os.getpid(), signal.SIGKILL)


def _then(function: Callable[..., Any], *, before: str | None = None, after: str | None = None) -> Callable[..., Any]:
    def stepping(*words: Any, **named: Any) -> Any:
        if before is not None:
            reached(before)
        found = function(*words, **named)
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
    finalize.build_part = _then(finalize.build_part, after="verified")
    folders.move_files = _then(folders.move_files, before="moving", after="moved")
    finalize.finalize_part = _then(finalize.finalize_part, after="part")
    finalize.finalize_whole = _then(finalize.finalize_whole, after="whole")
    control_client.OperatorClient.request = _ask  # type: ignore[method-assign]
    sys.exit(cli_entry.main())
