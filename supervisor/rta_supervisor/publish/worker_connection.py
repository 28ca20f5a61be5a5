"""What a supervisor and the process that publishes for it send each other over a pair of sockets: settings one way,
figures and events of the log the other.
"""

import contextlib
import socket
from collections.abc import Mapping
from typing import Final

import msgspec

from rta_supervisor.diagnostics.recent_events import RECENT_EVENTS, LogEvent
from rta_supervisor.publish.status import PublishStatus
from rta_supervisor.settings import settings

LENGTH_BYTES: Final = 4


class WorkerJob(msgspec.Struct, frozen=True):
    """What a supervisor sends first, and again where a reload has changed the settings."""

    settings: settings.Settings
    node_id: str


class WorkerReport(msgspec.Struct, frozen=True):
    """What the process reports to its supervisor."""

    counts: dict[str, int] = {}
    """Calls since the last report, by outcome."""
    configs: int = 0
    """Configurations stored since the last report."""
    status: PublishStatus | None = None
    events: tuple[LogEvent, ...] = ()
    """What the process has logged since the last report."""


def frame_job(job: WorkerJob) -> bytes:
    """A job as it is sent over the connection."""
    raw = msgspec.json.encode(job)
    return len(raw).to_bytes(LENGTH_BYTES, "big") + raw


def receive_job(connection: socket.socket) -> WorkerJob | None:
    """The next job; None where the supervisor is gone or has closed the connection."""
    try:
        size = connection.recv(LENGTH_BYTES, socket.MSG_WAITALL)
        if len(size) < LENGTH_BYTES:
            return None
        raw = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    except ConnectionError:
        return None
    return msgspec.json.decode(raw, type=WorkerJob) if len(raw) == int.from_bytes(size, "big") else None


class WorkerReports:
    """The end of the connection at which the process reports."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._counted: dict[str, int] = {}
        self._configs_counted = 0
        self._last_event = 0

    def send_figures(self, counts: Mapping[str, int], configs: int, status: PublishStatus) -> None:
        """Report how publishing goes. `counts` and `configs` are those since the start."""
        news = {kind: count - self._counted.get(kind, 0) for kind, count in counts.items()}
        report = WorkerReport(news, configs - self._configs_counted, status)
        self._counted, self._configs_counted = dict(counts), configs
        self._send(report)

    def send_events(self) -> None:
        """Report what was logged since the last time, for the live page of the supervisor."""
        if events := RECENT_EVENTS.after(self._last_event):
            self._last_event = events[-1].number
            self._send(WorkerReport(events=tuple(events)))

    def _send(self, report: WorkerReport) -> None:
        # Where the supervisor is gone, whoever reads from the connection finds out.
        with contextlib.suppress(ConnectionError):
            self._connection.sendall(msgspec.json.encode(report) + b"\n")
