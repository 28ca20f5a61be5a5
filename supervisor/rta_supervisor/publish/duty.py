"""The duty of a supervisor that publishes: while it has the lease, it keeps the process that does the work running, and
takes over what that one reports.
"""

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import anyio
import anyio.abc
import msgspec

from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.diagnostics.recent_events import RECENT_EVENTS
from rta_supervisor.nodes.leases import Lease
from rta_supervisor.publish import worker_connection
from rta_supervisor.publish.worker_connection import WorkerJob, WorkerReport
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.transport.link import Link
from rta_wire import errors

LOOK_S: Final = 1.0
"""How often to see whether the lease is still ours, and the settings are those that the process has."""

RESTART_PAUSE_S: Final = 1.0
RESTART_MAX_S: Final = 30.0
"""The longest pause before another process is started, where one after the other ends at once: before each of them the
catalogue is brought up to date, which is work for the loop that serves sessions."""

STABLE_S: Final = 60.0
"""A process that has run for so long did not end at once."""

STOP_S: Final = 2.0
"""How long the process may take to save what was delivered."""

REPORT_MAX_BYTES: Final = 64 * 1024

_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from rta_supervisor.publish import worker; worker.main(sys.argv[1:])"
)
"""Begins with our module path: the program that started us may have set it by itself."""


class PublishDuty:
    """Publishes while this supervisor has the lease."""

    def __init__(
        self, link: Link, config: settings.Settings, node_id: str, prepare: Callable[[], Awaitable[None]]
    ) -> None:
        """`prepare`: called with each new lease; afterwards the catalogue has everything that Redis has."""
        # What the settings name has to be there at the start, and is read by the process.
        config.publish.bearer_token()
        config.publish.root_certificates()
        self._link = link
        self._config = config
        self._node_id = node_id
        self._prepare = prepare
        self._log = log.get()

    async def run(self, lease: Lease) -> None:
        """Publish whenever the lease is ours, until cancelled."""
        restart_s = RESTART_PAUSE_S
        while True:
            loop_watch.report_alive(LOOK_S)
            if await lease.next_turn(LOOK_S) is None:
                continue
            try:
                await self._prepare()
            except (*RETRIABLE_ERRORS, errors.CatalogueUnavailable) as error:
                self._link.outage_log.log_failure(error)
                continue
            started_s = anyio.current_time()
            try:
                code = await self._publish(lease)
            except OSError as error:
                # No memory or no file for another process.
                code = error.errno or 1
            finally:
                counters.counts.publish_status = None
            if anyio.current_time() - started_s >= STABLE_S:
                restart_s = RESTART_PAUSE_S
            if code:
                self._log.error("publisher_ended", code=code, restart_s=restart_s)
                loop_watch.report_alive(restart_s)
                await anyio.sleep(restart_s)
                restart_s = min(restart_s * 2, RESTART_MAX_S)

    async def _publish(self, lease: Lease) -> int:
        """Have the process publish until it ends or the lease is lost. Gives its exit code, 0 if we ended it."""
        async with self._worker() as (process, connection), anyio.create_task_group() as group:
            group.start_soon(self._take_reports, connection)
            sent = b""
            while lease.is_ours and process.returncode is None:
                loop_watch.report_alive(LOOK_S)
                if (job := worker_connection.frame_job(WorkerJob(self._config, self._node_id))) != sent:
                    # The first one, or a reload has changed the settings.
                    with contextlib.suppress(ConnectionError):  # it has ended, which its exit code says
                        await _send(connection, job)
                    sent = job
                with anyio.move_on_after(LOOK_S):
                    await process.wait()
            group.cancel_scope.cancel()
        return process.returncode or 0

    @contextlib.asynccontextmanager
    async def _worker(self) -> AsyncIterator[tuple[anyio.abc.Process, socket.socket]]:
        """The process and our end of the connection to it. It ends with the block."""
        ours, theirs = socket.socketpair()
        with ours:
            # Cancelled while it starts, it would be left to itself.
            with theirs, anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), json.dumps(sys.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=None,
                    stderr=None,
                    pass_fds=[theirs.fileno()],
                )
            try:
                ours.setblocking(False)
                self._log.info("publisher_started", pid=process.pid)
                yield process, ours
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process, ours)

    async def _take_reports(self, connection: socket.socket) -> None:
        buffered = b""
        while True:
            await anyio.wait_readable(connection)
            try:
                data = connection.recv(REPORT_MAX_BYTES)
            except ConnectionError:
                return
            if not data:
                return
            *lines, buffered = (buffered + data).split(b"\n")
            for line in lines:
                _take(msgspec.json.decode(line, type=WorkerReport))


async def _send(connection: socket.socket, data: bytes) -> None:
    while data:
        await anyio.wait_writable(connection)
        data = data[connection.send(data) :]


async def _end(process: anyio.abc.Process, connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    with anyio.move_on_after(STOP_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


def _take(report: WorkerReport) -> None:
    for kind, count in report.counts.items():
        counters.counts.publications[kind] += count
    counters.counts.configs_published += report.configs
    if report.status is not None:
        counters.counts.publish_status = report.status
    RECENT_EVENTS.take_over(report.events)
