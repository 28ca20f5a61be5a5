"""The end of an epoch, on the driver: staged bursts are moved, marks are compared, totals are waited for."""

from collections.abc import Iterable, Sequence
from typing import Any

import redis

from rta_wire import errors, keys
from rta_wire.control.totals import Mark, Totals
from rta_writers.connection import redis_client, retry
from rta_writers.options.target import Target
from rta_writers.options.write import DeliveryGuarantee, WriteOptions
from rta_writers.write import progress, staged
from rta_writers.write import unit as write_unit
from rta_writers.write.result import TaskResult

UnitTotals = tuple[Target, str, Totals]


def commit(options: WriteOptions, outcomes: Sequence[TaskResult], *, epoch: int) -> None:
    """Everything that the tasks of an epoch have done becomes final."""
    if not outcomes:
        return
    job = write_unit.job_of(outcomes[0].unit)
    client = redis_client.shared_client(options.redis_url)
    if options.delivery is DeliveryGuarantee.STAGED:
        written = _move(client, options, outcomes, job=job, epoch=epoch)
    else:
        written = [(share.target, outcome.unit, share.totals) for outcome in outcomes for share in outcome.shares]
    if options.delivery is DeliveryGuarantee.EXACTLY_ONCE:
        _compare(client, options, outcomes, job=job, epoch=epoch)
    if options.wait:
        progress.wait_until_folded(client, written, timeout_s=options.wait_timeout_s)


def abort(options: WriteOptions, outcomes: Iterable[TaskResult]) -> None:
    """Nobody will commit what these tasks staged."""
    client = redis_client.shared_client(options.redis_url)
    try:
        for outcome in outcomes:
            for share in outcome.shares:
                if share.staged is not None:
                    staged.discard(client, share.target, [share.staged])
    except retry.OUTAGE_ERRORS:
        return  # it expires


def _move(
    client: redis.Redis, options: WriteOptions, outcomes: Sequence[TaskResult], *, job: str, epoch: int
) -> list[UnitTotals]:
    parts: dict[Target, list[staged.StagedAttempt]] = {}
    if options.session is not None and options.stream_session_id is not None:
        # Asked even where nothing was staged: a commit that was cut off may have left something to move.
        parts[options.target(options.session, options.stream_session_id)] = []
    for outcome in sorted(outcomes, key=lambda one: one.unit):
        for share in outcome.shares:
            if share.staged is not None:
                parts.setdefault(share.target, []).append(share.staged)
    written = []
    for target, some in parts.items():
        mover = staged.commit(client, target, some, unit=job, epoch=epoch, ttl_s=options.staged_ttl_s)
        totals = mover.known_totals()
        mover.close()
        if totals.bursts:
            progress.send_progress(client, target, job, totals)
            written.append((target, job, totals))
    return written


def _compare(
    client: redis.Redis, options: WriteOptions, outcomes: Sequence[TaskResult], *, job: str, epoch: int
) -> None:
    """What the tasks wrote has to stand there still, and nothing else of this epoch.

    A unit that wrote in it and is not among its tasks any more: the rows were divided in another way.
    """
    rows: dict[Target, dict[str, int]] = {}
    for outcome in outcomes:
        for share in outcome.shares:
            rows.setdefault(share.target, {})[outcome.unit] = share.rows
    if options.session is None:
        for target in _seen(client, options, job):
            rows.setdefault(target, {})
    else:
        assert options.stream_session_id is not None
        rows.setdefault(options.target(options.session, options.stream_session_id), {})
    pipe = client.pipeline(transaction=False)
    for target in rows:
        pipe.hgetall(target.keys.marks(target.stream, target.stream_session_id))
    answers: Any = pipe.execute()
    for (target, here), raw in zip(rows.items(), answers, strict=True):
        marks = {unit.decode(): Mark.from_text(text.decode()) for unit, text in raw.items()}
        for unit, count in here.items():
            if (done := marks.get(unit, Mark()).rows_done(epoch)) < count:
                raise errors.AppendGap(unit=unit, identity=target.identity, epoch=epoch, done=done, row=count)
        for unit, mark in marks.items():
            if write_unit.job_of(unit) == job and unit not in here and mark.epoch == epoch and mark.rows:
                raise errors.RowsChanged(
                    unit=unit,
                    identity=target.identity,
                    epoch=epoch,
                    how=f"{mark.rows} rows of that partition stand there, and it has none now",
                )


def _seen(client: redis.Redis, options: WriteOptions, job: str) -> list[Target]:
    """Sessions that rows of the job ever named, in this run or in one before, and that are still there."""
    found: Any = client.smembers(options.keys.members(job))
    identities = sorted(raw.decode() for raw in found)
    pipe = client.pipeline(transaction=False)
    for identity in identities:
        pipe.hget(options.keys.session_state(identity), keys.STREAM_SESSION_ID)
        pipe.hget(options.keys.session_state(identity), keys.STREAM_NAME)
    answers: Any = pipe.execute()
    return [
        options.target(identity, int(number), stream.decode())
        for identity, number, stream in zip(identities, answers[::2], answers[1::2], strict=True)
        if number is not None
    ]
