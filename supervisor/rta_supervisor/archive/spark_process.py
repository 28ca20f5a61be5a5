"""Runs the Spark job in a process of its own, and takes its answers."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from rta_supervisor.archive import folders
from rta_supervisor.embedded import java, processes
from rta_wire import archive_spec, errors

LOG_TAIL_LINES: Final = 15
_answer: Final = msgspec.json.Decoder(archive_spec.JobEvent)


def require_spark() -> dict[str, str]:
    """The environment of a Spark process, or an error that says what to install."""
    if importlib.util.find_spec("pyspark") is None:
        raise errors.Unavailable(
            what="Spark", reason="the package pyspark is not installed. Try: pip install 'rta-supervisor[spark]'"
        )
    return java.spark_environment()


def run_job(order: archive_spec.ArchiveSpec, aside: Path) -> Iterator[archive_spec.JobEvent]:
    """What the job says, until it is done. One that fails is an error here."""
    environment = require_spark()
    scratch = aside / "spark"
    log_path = aside / "job.log"
    try:
        scratch.mkdir()
        _write_order(aside / "order.json", order)
        command = [sys.executable, "-m", "rta_writers.archive.job", str(aside / "order.json")]
        # The program may have put our packages onto its path by itself.
        path = os.pathsep.join(filter(None, sys.path))
        surroundings = {**environment, "SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch), "PYTHONPATH": path}
        with processes.running(command, log_path, surroundings, pipe=True) as process:
            yield from _answers(process, log_path)
    except OSError as error:
        raise folders.unwritable(aside.parent, error) from error


def _answers(process: subprocess.Popen[bytes], log_path: Path) -> Iterator[archive_spec.JobEvent]:
    assert process.stdout is not None
    for line in process.stdout:
        answer = _answer.decode(line)
        if isinstance(answer, archive_spec.JobFailed):
            raise errors.from_reply(answer.code, answer.message, retriable=answer.retriable)
        yield answer
    if (code := process.wait()) != 0:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        raise errors.Unavailable(what="Spark", reason=f"its job {how}. The end of its log:\n{_tail(log_path)}")


def _write_order(path: Path, order: archive_spec.ArchiveSpec) -> None:
    """For nobody else's eyes: the address of Redis may hold a password."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(order))


def _tail(log_path: Path) -> str:
    lines = log_path.read_text(errors="replace").splitlines()
    return "\n".join([line for line in lines if not line.startswith(("\tat ", "\t... "))][-LOG_TAIL_LINES:])
