"""Runs of the archive that a supervisor starts itself, every `archive.every_s`: each is a process of its own, so that
reading files back takes no time from sessions.

The process is this module: it reads its settings from standard input, as they may hold passwords.
"""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import anyio
import msgspec

from rta_supervisor.archive import candidates as archive_candidates
from rta_supervisor.archive.plan import ArchiveFilter
from rta_supervisor.archive.run import ArchivedSession, ArchiveOptions, ArchiveRun
from rta_supervisor.diagnostics import log, loop_watch
from rta_supervisor.nodes import periodic
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_supervisor.transport.link import Link
from rta_wire import errors

DUTY: Final = "archive"
"""The name of its lease: one supervisor at a time starts runs."""

LOCAL_SPARK: Final = "local[1]"
TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 10
COMMAND: Final = (sys.executable, "-m", "rta_supervisor.archive.scheduled_run")
POLL_S: Final = 5.0
REASON_MAX_CHARS: Final = 500


class ScheduledArchive:
    """The duty that starts runs of the archive, at one supervisor at a time."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config
        self._log = log.get(duty=DUTY)

    async def run(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Start a run every `archive.every_s` until cancelled."""
        await periodic.in_turns(turns, lambda: self._config.archive.every_s, self.run_once, self._link.outage_log)

    async def run_once(self, until_ms: int | None) -> None:
        """One run, in our turn. What it says is logged; one that fails is followed by the next."""
        if until_ms is None:
            return
        with anyio.CancelScope(shield=True):  # cancelled while it starts, it would be left to itself
            process = await anyio.open_process(COMMAND, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        outcome = _Outcome()
        try:
            assert process.stdin is not None
            await process.stdin.send(msgspec.json.encode(self._config))
            await process.stdin.aclose()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_collect, process.stderr, outcome.errors)
                await _collect(process.stdout, outcome.output)
            await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process)
        self._report(process.returncode or 0, outcome)

    def _report(self, code: int, outcome: "_Outcome") -> None:
        if code == errors.ArchiveBusy.exit_code:
            self._log.info("archive_busy")
            return
        if code:
            reason = outcome.errors.decode(errors="replace").strip()[-REASON_MAX_CHARS:]
            self._log.error("archive_failed", code=code, reason=reason)
            return
        archived = msgspec.json.decode(outcome.output, type=list[ArchivedSession]) if outcome.output else []
        failed = [session for session in archived if session.outcome == "failed"]
        for session in failed:
            self._log.error("archive_failed", code=errors.NotArchivable.exit_code, reason=session.problem)
        if len(archived) > len(failed):
            self._log.info(
                "archive_done",
                sessions=len(archived) - len(failed),
                samples=sum(session.samples for session in archived),
                bytes=sum(session.size_bytes for session in archived),
            )


class _Outcome(msgspec.Struct):
    """What a process printed."""

    output: bytearray = msgspec.field(default_factory=bytearray)
    errors: bytearray = msgspec.field(default_factory=bytearray)


async def _collect(stream: anyio.abc.ByteReceiveStream | None, target: bytearray) -> None:
    assert stream is not None
    while True:
        with anyio.move_on_after(POLL_S):
            try:
                target += await stream.receive()
            except anyio.EndOfStream:
                return
        loop_watch.report_alive(POLL_S)


async def _stop(process: anyio.abc.Process) -> None:
    """End a process that still runs: Spark ends with it."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(STOP_TIMEOUT_S):
            await process.wait()
            return
        process.kill()


def main() -> int:
    """One run with the settings on standard input. Prints what became of each session as JSON."""
    config = msgspec.json.decode(sys.stdin.buffer.read(), type=settings.Settings)
    archived: list[ArchivedSession] = []
    options = ArchiveOptions(Path(config.archive.folder), LOCAL_SPARK, TIMEOUT_S)
    try:
        candidates = one_shot.run(config, lambda link: archive_candidates.find(link, config, ArchiveFilter()))
        if candidates:
            ArchiveRun(config, options, archived.append, lambda _: None).run(candidates)
    except errors.RtaError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    finally:
        sys.stdout.buffer.write(msgspec.json.encode(archived))
    return 0


if __name__ == "__main__":
    sys.exit(main())
