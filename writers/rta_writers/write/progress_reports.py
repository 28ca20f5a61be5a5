"""Reports to the supervisor of what units have written, and waiting until it has taken them."""

import time
from collections.abc import Iterable
from typing import Final, NamedTuple, cast

import redis

from rta_wire import errors, keys, redis_errors
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_writers.connection import retry
from rta_writers.control import requests
from rta_writers.options.target import Target

POLL_S: Final = 0.02
REPORT_EVERY_S: Final = 1.0


class UnitTotals(NamedTuple):
    """What a unit has written to a session."""

    target: Target
    unit: str
    totals: Totals


def send_progress(client: redis.Redis, target: Target, unit: str, totals: Totals) -> None:
    """Report what a unit has written in all. It may be repeated, and lost: the next report has it too."""
    message = control_pb2.Progress(
        identity=target.identity,
        stream_session_id=target.stream_session_id,
        unit=unit,
        totals=totals.to_message(),
    )
    _send(client, target, message)


def send_heartbeat(client: redis.Redis, target: Target) -> None:
    """Report that a session has a writer, even if nothing that it wrote is visible yet."""
    message = control_pb2.Heartbeat(identity=target.identity, stream_session_id=target.stream_session_id)
    _send(client, target, message)


def wait_until_folded(client: redis.Redis, written: Iterable[UnitTotals], *, timeout_s: float) -> None:
    """Wait until the supervisor has at least these totals."""
    deadline_s = time.monotonic() + timeout_s
    for unit_totals in written:
        while not _is_folded(client, unit_totals):
            if time.monotonic() > deadline_s:
                raise errors.NotFolded(identity=unit_totals.target.identity, timeout_s=timeout_s)
            time.sleep(POLL_S)


def _send(client: redis.Redis, target: Target, message: messages.Report) -> None:
    try:
        requests.append_message(client, target.keys.reports(target.principal), messages.pack(message))
    except retry.REDIS_ERRORS as error:
        failure = redis_errors.classify(error)
        if failure is None or failure.kind is redis_errors.FailureKind.PERMANENT:
            raise retry.to_rta_error(target.redis_url, error) from error
        # The marks are beside the data and are folded at close: a lost report only delays the time range.


def _is_folded(client: redis.Redis, written: UnitTotals) -> bool:
    state_key = written.target.keys.session_state(written.target.identity)
    try:
        raw = cast("bytes | None", client.hget(state_key, keys.unit_field(written.unit)))
    except retry.OUTAGE_ERRORS:
        return False
    return raw is not None and Totals.from_strings(raw.decode().split()).has_arrived(written.totals)
