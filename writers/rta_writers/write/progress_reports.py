"""Reports to the supervisor of what units have written, and waiting until it has taken them."""

import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, cast

import redis

from rta_wire import errors, keys, redis_errors
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_writers.connection import retry
from rta_writers.connection.pipeline import Pipeline
from rta_writers.control import requests
from rta_writers.options.target import Target

POLL_S: Final = 0.02
REPORT_EVERY_S: Final = 0.05
"""A task reports what it has written at most so often, and not much later than this after it stands there."""

HEARTBEAT_EVERY_S: Final = 1.0


class UnitTotals(NamedTuple):
    """What a unit has written to a session."""

    target: Target
    unit: str
    totals: Totals


class ReportSender:
    """Sends the reports of one task, on a connection of its own. Redis takes them while the task goes on."""

    def __init__(self, client: redis.Redis, target: Target) -> None:
        """`target`: any session of the task. All of them have one principal."""
        self._url = target.redis_url
        self._key = target.keys.reports(target.principal)
        self._pipeline = Pipeline(client, target.redis_url, self._key)
        self._pending_replies = 0

    def send(self, reports: Sequence[messages.Report]) -> None:
        """Send reports, after the replies to those before. A report may be lost: the next one has its totals too, and
        the marks beside the data are folded at close."""
        self.wait()
        commands = requests.append_commands(self._key, [messages.pack(report) for report in reports])
        try:
            self._pipeline.send(commands)
        except retry.REDIS_ERRORS as error:
            self._take_error(error)
        else:
            self._pending_replies = len(commands)

    def wait(self) -> None:
        """Wait until Redis has all reports. Raises where it refuses them for good."""
        count, self._pending_replies = self._pending_replies, 0
        try:
            self._pipeline.receive(count)
        except retry.REDIS_ERRORS as error:
            self._take_error(error)

    def close(self) -> None:
        """Release the connection."""
        self._pipeline.release()
        self._pending_replies = 0

    def _take_error(self, error: BaseException) -> None:
        self._pipeline.fail()
        failure = redis_errors.classify(error)
        if failure is None or failure.kind is redis_errors.FailureKind.PERMANENT:
            raise retry.to_rta_error(self._url, error) from error


def progress(target: Target, unit: str, totals: Totals) -> control_pb2.Progress:
    """The report of what a unit has written in all."""
    return control_pb2.Progress(
        identity=target.identity,
        stream_session_id=target.stream_session_id,
        unit=unit,
        totals=totals.to_message(),
    )


def heartbeat(target: Target) -> control_pb2.Heartbeat:
    """The report that a session has a writer, even if nothing that it wrote is visible yet."""
    return control_pb2.Heartbeat(identity=target.identity, stream_session_id=target.stream_session_id)


def send_progress(client: redis.Redis, target: Target, unit: str, totals: Totals) -> None:
    """Report what a unit has written in all, and wait until Redis has the report."""
    sender = ReportSender(client, target)
    try:
        sender.send([progress(target, unit, totals)])
        sender.wait()
    finally:
        sender.close()


def wait_until_folded(client: redis.Redis, written: Iterable[UnitTotals], *, timeout_s: float) -> None:
    """Wait until the supervisor has at least these totals."""
    deadline_s = time.monotonic() + timeout_s
    for unit_totals in written:
        while not _is_folded(client, unit_totals):
            if time.monotonic() > deadline_s:
                raise errors.NotFolded(identity=unit_totals.target.identity, timeout_s=timeout_s)
            time.sleep(POLL_S)


def _is_folded(client: redis.Redis, written: UnitTotals) -> bool:
    state_key = written.target.keys.session_state(written.target.identity)
    try:
        raw = cast("bytes | None", client.hget(state_key, keys.unit_field(written.unit)))
    except retry.OUTAGE_ERRORS:
        return False
    return raw is not None and Totals.from_strings(raw.decode().split()).has_arrived(written.totals)
