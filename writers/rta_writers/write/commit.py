"""The end of an epoch, on the driver: staged bursts are moved, marks are compared, totals are waited for."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import redis

from rta_wire import errors, keys
from rta_wire.control.totals import Mark
from rta_writers.connection import redis_client, retry
from rta_writers.options.target import Target
from rta_writers.options.write import DeliveryGuarantee, WriteOptions
from rta_writers.write import progress_reports, task_unit
from rta_writers.write.delivery import staged_delivery
from rta_writers.write.progress_reports import UnitTotals
from rta_writers.write.task_result import StagedAttempt, TaskResult


def commit(options: WriteOptions, results: Sequence[TaskResult], *, epoch: int) -> None:
    """Make what the tasks of an epoch wrote final."""
    if not results:
        return
    job = task_unit.job_of(results[0].unit)
    client = redis_client.shared_client(options.redis_url)
    if options.delivery is DeliveryGuarantee.STAGED:
        written = _move_staged(client, options, results, job=job, epoch=epoch)
    else:
        written = [UnitTotals(part.target, result.unit, part.totals) for result in results for part in result.shares]
    if options.delivery is DeliveryGuarantee.EXACTLY_ONCE:
        _check_marks(client, options, results, job=job, epoch=epoch)
    if options.wait:
        progress_reports.wait_until_folded(client, written, timeout_s=options.wait_timeout_s)


def abort(options: WriteOptions, results: Iterable[TaskResult]) -> None:
    """Remove what the tasks of an epoch staged that will not be committed: what a commit has begun with stays."""
    client = redis_client.shared_client(options.redis_url)
    try:
        for result in results:
            for part in result.shares:
                if part.staged is not None:
                    job = task_unit.job_of(result.unit)
                    staged_delivery.discard(client, part.target, part.staged, unit=job, epoch=result.epoch)
    except retry.OUTAGE_ERRORS:
        return  # it expires


def _move_staged(
    client: redis.Redis, options: WriteOptions, results: Sequence[TaskResult], *, job: str, epoch: int
) -> list[UnitTotals]:
    attempts: dict[Target, list[StagedAttempt]] = {}
    if options.session is not None and options.stream_session_id is not None:
        # Even where no task staged anything: a commit that was cut off may have left bursts to move.
        attempts[options.target(options.session, options.stream_session_id)] = []
    for result in sorted(results, key=lambda result: result.unit):
        for part in result.shares:
            if part.staged is not None:
                attempts.setdefault(part.target, []).append(part.staged)
    written = []
    for target, staged_attempts in attempts.items():
        totals = staged_delivery.commit(
            client, target, staged_attempts, unit=job, epoch=epoch, ttl_s=options.staged_ttl_s
        )
        if totals.bursts:
            progress_reports.send_progress(client, target, job, totals)
            written.append(UnitTotals(target, job, totals))
    return written


def _check_marks(
    client: redis.Redis, options: WriteOptions, results: Sequence[TaskResult], *, job: str, epoch: int
) -> None:
    """Check that what the tasks wrote is still there, and nothing else of the epoch.

    Where a unit of the job wrote in the epoch and is not among its tasks now, the rows were divided in another way.
    """
    rows: dict[Target, dict[str, int]] = {}
    for result in results:
        for part in result.shares:
            rows.setdefault(part.target, {})[result.unit] = part.rows
    if options.session is None:
        for target in retry.ride_out(options.redis_url, lambda: _sessions_of_job(client, options, job)):
            rows.setdefault(target, {})
    else:
        assert options.stream_session_id is not None
        rows.setdefault(options.target(options.session, options.stream_session_id), {})
    replies = retry.ride_out(options.redis_url, lambda: _read_marks(client, rows))
    for (target, rows_by_unit), reply in zip(rows.items(), replies, strict=True):
        # Marks of other jobs and programs are theirs to read: one that can't be read is not our loss.
        texts = {unit.decode(errors="replace"): text for unit, text in reply.items()}
        marks = {
            unit: Mark.from_text(text.decode())
            for unit, text in texts.items()
            if unit in rows_by_unit or task_unit.job_of(unit) == job
        }
        _check_session(target, rows_by_unit, marks, epoch=epoch)


def _read_marks(client: redis.Redis, targets: Iterable[Target]) -> list[dict[bytes, bytes]]:
    pipe = client.pipeline(transaction=False)
    for target in targets:
        pipe.hgetall(target.keys.marks(target.stream, target.stream_session_id))
    return cast("list[dict[bytes, bytes]]", pipe.execute())


def _check_session(target: Target, rows_by_unit: dict[str, int], marks: dict[str, Mark], *, epoch: int) -> None:
    for unit, count in rows_by_unit.items():
        if (done := marks.get(unit, Mark()).rows_done(epoch)) < count:
            raise errors.AppendGap(unit=unit, identity=target.identity, epoch=epoch, done=done, row=count)
    for unit, mark in marks.items():
        if unit not in rows_by_unit and mark.epoch == epoch and mark.rows:
            raise errors.RowsChanged(
                unit=unit,
                identity=target.identity,
                epoch=epoch,
                how=f"{mark.rows} rows of that partition stand there, and it has none now",
            )


def _sessions_of_job(client: redis.Redis, options: WriteOptions, job: str) -> list[Target]:
    """Sessions that rows of the job ever named, in this run or an earlier one, and that still exist."""
    members: Any = client.smembers(options.keys.members(job))
    identities = sorted(member.decode() for member in members)
    pipe = client.pipeline(transaction=False)
    for identity in identities:
        pipe.hget(options.keys.session_state(identity), keys.STREAM_SESSION_ID)
        pipe.hget(options.keys.session_state(identity), keys.STREAM_NAME)
    replies: Any = pipe.execute()
    return [
        options.target(identity, int(number), stream.decode())
        for identity, number, stream in zip(identities, replies[::2], replies[1::2], strict=True)
        if number is not None
    ]
