"""Runs the Spark job of the archive as a process of its own, and reads the events that it prints."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from rta_supervisor.archive import folders
from rta_supervisor.embedded import java, processes
from rta_wire import archive_spec, errors

JOB: Final = ("-m", "rta_writers.archive.job")
LOG_TAIL_LINES: Final = 15
LOG_TAIL_CHARS: Final = 1800
"""Less than an error quotes: it would cut the end, which says what went wrong."""
_decoder: Final = msgspec.json.Decoder(archive_spec.JobEvent)


def require_spark() -> dict[str, str]:
    """The environment of a Spark process. Raises an error that says what to install where Spark or Java is missing."""
    if importlib.util.find_spec("pyspark") is None:
        raise errors.Unavailable(
            what="Spark", reason=f"the package pyspark is not installed. Try: {java.HOW_TO_INSTALL}"
        )
    return java.spark_environment()


def run_job(spec: archive_spec.ArchiveSpec, staging: Path) -> Iterator[archive_spec.JobEvent]:
    """Run the job and yield its events until it is done. Raises the error of a job that fails."""
    environment = require_spark()
    try:
        # A run that makes a damaged part anew has more than one job.
        scratch = Path(tempfile.mkdtemp(prefix="spark-", dir=staging))
        log_path, spec_path = scratch / "job.log", scratch / "spec.json"
        environment |= {
            "SPARK_LOCAL_DIRS": str(scratch),
            "TMPDIR": str(scratch),
            # This program may have put our packages onto its path by itself.
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        _write_spec(spec_path, spec)
        command = [sys.executable, *JOB, str(spec_path)]
        with processes.running(command, log_path, environment, pipe=True) as process:
            yield from _events(process, log_path)
    except OSError as error:
        raise folders.unwritable(staging.parent, error) from error


def _events(process: subprocess.Popen[bytes], log_path: Path) -> Iterator[archive_spec.JobEvent]:
    assert process.stdout is not None
    for line in process.stdout:
        event = _decoder.decode(line)
        if isinstance(event, archive_spec.JobFailed):
            raise errors.from_reply(event.code, event.message, retriable=event.retriable)
        yield event
    if (code := process.wait()) != 0:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        raise errors.Unavailable(what="Spark", reason=f"its job {how}. The end of its log:\n{_tail(log_path)}")


def _write_spec(path: Path, spec: archive_spec.ArchiveSpec) -> None:
    """Readable by this user only: the URL of Redis may hold a password."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(spec))


def _tail(log_path: Path) -> str:
    lines = log_path.read_text(errors="replace").splitlines()
    without_frames = [line for line in lines if not line.startswith(("\tat ", "\t... "))]
    return "\n".join(without_frames[-LOG_TAIL_LINES:])[-LOG_TAIL_CHARS:]
