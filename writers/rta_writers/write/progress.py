"""Reports to the supervisor: what a unit has written so far; and waiting until it has taken them."""

import time
from collections.abc import Iterable
from typing import Final

import redis

from rta_wire import errors, keys, redis_errors
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_writers.connection import retry
from rta_writers.control import client as control_client
from rta_writers.options.target import Target

POLL_S: Final = 0.02
REPORT_EVERY_S: Final = 1.0


def send_progress(client: redis.Redis, target: Target, unit: str, totals: Totals) -> None:
    """What a unit has written. Repeating it is harmless, losing one too: the next says more."""
    message = control_pb2.Progress(
        identity=target.identity,
        stream_session_id=target.stream_session_id,
        unit=unit,
        totals=totals.to_message(),
    )
    _send(client, target, message)


def send_heartbeat(client: redis.Redis, target: Target) -> None:
    """Somebody works on the session, even if nothing of it can be seen yet."""
    _send(
        client,
        target,
        control_pb2.Heartbeat(identity=target.identity, stream_session_id=target.stream_session_id),
    )


def _send(client: redis.Redis, target: Target, message: messages.Report) -> None:
    try:
        control_client.append_message(client, target.keys.reports(target.principal), messages.pack(message))
    except retry.REDIS_ERRORS as error:
        found = redis_errors.classify(error)
        if found is None or found.kind is redis_errors.FailureKind.PERMANENT:
            raise retry.to_rta_error(target.redis_url, error) from error
        # The marks stand beside the data and are folded at close: a lost report only delays the time range.


def wait_until_folded(client: redis.Redis, written: Iterable[tuple[Target, str, Totals]], *, timeout_s: float) -> None:
    """Until the supervisor shows at least what these units have written."""
    deadline_s = time.monotonic() + timeout_s
    for target, unit, totals in written:
        while not _folded(client, target, unit, totals):
            if time.monotonic() > deadline_s:
                raise errors.NotFolded(identity=target.identity, timeout_s=timeout_s)
            time.sleep(POLL_S)


def _folded(client: redis.Redis, target: Target, unit: str, totals: Totals) -> bool:
    try:
        raw = client.hget(target.keys.session_state(target.identity), keys.unit_field(unit))
    except retry.OUTAGE_ERRORS:
        return False
    return raw is not None and Totals.from_words(bytes(raw).decode().split()).has_arrived(totals)  # type: ignore[arg-type]
