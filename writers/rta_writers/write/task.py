"""One task: rows of one unit in one epoch, to the sessions that they belong to. Does not import Spark.

Rows are counted for each session on its own, in the order in which they arrive, so a retry that gets the same rows in
the same order counts the same. At most `CONNECTIONS_MAX` connections are open, and about two groups of rows are in
memory for each.

No row waits longer than `flushMs`, and what is written is reported soon, also where no more rows come: a timer does
both. It and the caller take turns.
"""

import functools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from rta_wire import errors, name_checks
from rta_wire.codec.burst import Burst
from rta_wire.codec.columns import RowBatcher
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_writers.connection import redis_client, retry
from rta_writers.control import configs
from rta_writers.control.session_resolver import SessionResolver
from rta_writers.options.target import Target
from rta_writers.options.write import DeliveryGuarantee, WriteOptions
from rta_writers.write import fingerprint, frames, progress_reports, row_sessions, task_unit
from rta_writers.write.appender import Appender
from rta_writers.write.at_least_once import AtLeastOnceAppender
from rta_writers.write.exactly_once import ExactlyOnceAppender
from rta_writers.write.flush_timer import FlushTimer, TaskGuard
from rta_writers.write.staged_delivery import Stager
from rta_writers.write.task_result import SessionPart, TaskResult, TaskStats

log: Final = logging.getLogger("rta_writers")

CONNECTIONS_MAX: Final = 16
FLUSH_MS: Final = 1000
"""How long rows of a task wait where no option says it: its groups fill by themselves, and larger ones cost less."""

POLL_S: Final = 0.005
"""How long after a group was sent its replies are looked for."""

WAITING_ROWS_MAX: Final = 1_000_000
"""Rows of all sessions together that wait for their groups to fill."""


class _SessionOutput:
    """The rows of one session on their way: gathered into groups, then sent to its appender."""

    def __init__(self, target: Target, stream: str, appender: Appender, batcher: RowBatcher) -> None:
        self.target = target
        self.stream = stream
        """The stream that was asked for; with a stream per day that of the target has a day in its name."""
        self.appender = appender
        self.batcher = batcher
        self.next_row = 0
        self.reported = Totals()

    @property
    def is_unreported(self) -> bool:
        """Whether the supervisor has to be told more than it was, now or once the group under way is written."""
        return self.appender.is_under_way or self.unreported_totals() is not None

    def unreported_totals(self) -> Totals | None:
        """What is known to be written, None where that was reported, or where nothing is of this attempt."""
        totals = self.appender.known_totals()
        return totals if self.appender.rows_done and totals != self.reported else None


class Task:
    """Takes batches of rows with `write`, and ends with `finish`, or with `abort` where something failed."""

    def __init__(self, options: WriteOptions, schema: pa.Schema, *, unit: str, epoch: int) -> None:
        options = configs.with_channels(options)
        self.unit = unit
        self._options = options
        self._epoch = epoch
        self._encoder = frames.choose_encoder(options, schema)
        self._divider = row_sessions.RowDivider(options, self._encoder, schema) if options.session is None else None
        self._client = redis_client.connect(options.redis_url)
        self._resolver = SessionResolver(options, task_unit.job_of(unit) or unit)
        self._outputs: dict[str, _SessionOutput] = {}
        self._connected: dict[_SessionOutput, None] = {}
        """Outputs that may have a connection, the one that was used last at the end."""
        self._reports: progress_reports.ReportSender | None = None
        self._flush_s = (options.flush_ms or FLUSH_MS) / 1000
        self._waiting_since_s: float | None = None
        """When the first of the rows came that wait now."""
        self._reported_s = -float("inf")
        self._heartbeat_s = time.monotonic()
        self._guard = TaskGuard(unit)
        self._timer = FlushTimer(self)

    @property
    def error(self) -> BaseException | None:
        """What the timer failed with."""
        return self._guard.error

    @property
    def waiting_rows(self) -> int:
        """Rows that are not sent so far."""
        return sum(output.batcher.waiting_rows for output in self._outputs.values())

    @property
    def is_in_child(self) -> bool:
        """Whether this is a copy in a child process, which can't be used."""
        return self._guard.is_in_child

    def check(self, batch: pa.RecordBatch) -> None:
        """Refuse rows that can't be encoded, before any of them is taken. `write` finds them too, but later."""
        if self._divider is not None:
            for identity, stream in self._divider.streams(batch).items():
                name_checks.check_identity(identity)
                if identity in self._outputs:
                    row_sessions.check_stream(identity, self._outputs[identity].stream, stream)
        self._encoder.check_rows(batch)

    def are_plain(self, channels: pa.Array, times: pa.Array) -> bool:
        """Whether samples of these columns are in order by what a few microseconds show. Else `check` tells."""
        return isinstance(self._encoder, frames.LongEncoder) and self._encoder.are_plain(channels, times)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take more rows. They are sent when a group is full, or when they have waited for `flushMs`."""
        with self._guard:
            parts = [row_sessions.SessionRows(self._options.session or "", self._options.stream, batch)]
            if self._divider is not None:
                parts = list(self._divider.divide(batch))
            self._open_outputs({part.identity: part.stream for part in parts if part.identity not in self._outputs})
            for part in parts:
                self._add(part)
            waiting_rows = self.waiting_rows
            if self._waiting_since_s is None and waiting_rows:
                self._waiting_since_s = time.monotonic()
            if self._is_flush_due() or waiting_rows > WAITING_ROWS_MAX:
                self._send_waiting()
            self._report()
            self._timer.set_due(self._next_due_s())

    def flush(self) -> None:
        """Wait until all rows are in their streams, or are staged. They are reported soon after."""
        with self._guard:
            self._complete()
            self._report()
            self._timer.set_due(self._next_due_s())

    def finish(self) -> TaskResult:
        """Wait until all rows are in their streams, or are staged, and report the exact totals."""
        with self._guard:
            self._send_waiting()
            parts, reports = [], []
            for output in self._outputs.values():
                self._use_connection(output)
                totals = output.appender.totals()
                staged = output.appender.staged if isinstance(output.appender, Stager) else None
                parts.append(SessionPart(output.target, output.appender.rows_done, totals, staged))
                if staged is None and totals != output.reported:
                    reports.append(progress_reports.progress(output.target, self.unit, totals))
                    output.reported = totals
            self._send_reports(reports)
            if self._reports is not None:
                self._reports.wait()
            return TaskResult(self.unit, self._epoch, tuple(parts), self._stats())

    def abort(self) -> None:
        """Remove what was staged, where the attempt has failed and will not be committed."""
        with self._guard.lock:
            for output in self._outputs.values():
                if isinstance(output.appender, Stager):
                    try:
                        output.appender.discard()
                    except retry.OUTAGE_ERRORS:
                        return  # it expires

    def close(self) -> None:
        """Close all connections."""
        self._timer.stop()
        with self._guard.lock:
            for output in self._outputs.values():
                output.appender.close()
            if self._reports is not None:
                self._reports.close()
            self._resolver.close()
            self._client.close()

    def on_timer(self) -> None:
        """Send what has waited for long enough, and report what was written. An error is raised by the next call."""
        if self._guard.error is not None:
            return
        try:
            with self._guard:
                if self._timer.is_stopped:
                    return
                if self._is_flush_due():
                    self._complete()
                for output in self._outputs.values():
                    output.appender.poll()
                self._report()
                self._timer.set_due(self._next_due_s())
        except BaseException as error:  # noqa: BLE001 - raised to the caller, who is in another thread
            self._guard.error = error
            log.error("Rows of unit %r could not be sent by the timer: %s", self.unit, error)  # noqa: TRY400 - as above

    def _is_flush_due(self) -> bool:
        return self._waiting_since_s is not None and time.monotonic() - self._waiting_since_s >= self._flush_s

    def _next_due_s(self) -> float | None:
        """When the timer has something to do, None where it has not."""
        due_s = None if self._waiting_since_s is None else self._waiting_since_s + self._flush_s
        for output in self._outputs.values():
            if output.is_unreported:
                report_s = max(time.monotonic() + POLL_S, self._reported_s + progress_reports.REPORT_EVERY_S)
                return report_s if due_s is None else min(due_s, report_s)
        return due_s

    def _complete(self) -> None:
        self._send_waiting()
        for output in self._outputs.values():
            output.appender.flush()

    def _add(self, part: row_sessions.SessionRows) -> None:
        output = self._outputs[part.identity]
        row_sessions.check_stream(part.identity, output.stream, part.stream)
        for group in output.batcher.add(part.rows):
            self._send(output, group)

    def _open_outputs(self, streams: Mapping[str, str]) -> None:
        if not streams:
            return
        for (identity, stream), target in zip(streams.items(), self._resolver.resolve_all(streams), strict=True):
            batcher = RowBatcher(self._encoder.group_rows, self._encoder.group_bytes)
            self._outputs[identity] = _SessionOutput(target, stream, self._open_appender(target), batcher)

    def _open_appender(self, target: Target) -> Appender:
        if self._options.delivery is DeliveryGuarantee.STAGED:
            return Stager(self._client, target, ttl_s=self._options.staged_ttl_s)
        if self._options.delivery is DeliveryGuarantee.AT_LEAST_ONCE:
            return AtLeastOnceAppender(self._client, target, unit=self.unit, epoch=self._epoch)
        return ExactlyOnceAppender(self._client, target, unit=self.unit, epoch=self._epoch)

    def _send(self, output: _SessionOutput, group: pa.RecordBatch) -> None:
        self._use_connection(output)
        encode_rows = functools.partial(self._encode, output, group, output.next_row)
        output.next_row += group.num_rows
        output.appender.append(group.num_rows, encode_rows, functools.partial(fingerprint.first_rows, group))

    def _use_connection(self, output: _SessionOutput) -> None:
        """Note that an output needs its connection now, and release the one that was not used for longest."""
        self._connected.pop(output, None)
        if len(self._connected) >= CONNECTIONS_MAX:
            self._release_connection(next(iter(self._connected)))
        self._connected[output] = None

    def _release_connection(self, output: _SessionOutput) -> None:
        output.appender.flush()
        output.appender.close()
        self._connected.pop(output, None)

    def _encode(self, output: _SessionOutput, group: pa.RecordBatch, first_row: int, skipped: int) -> Iterator[Burst]:
        """Bursts of a group without its first rows. An error names the row within all that the task got."""
        try:
            yield from self._encoder.bursts(group.slice(skipped) if skipped else group)
        except errors.BadSamples as error:
            if (row := error.facts.get("row")) is None:
                raise
            session = "" if self._options.session is not None else f" of session {output.target.identity!r}"
            raise frames.at_row(error, first_row + skipped + row, f"{session} in {self.unit!r}") from error

    def _send_waiting(self) -> None:
        for output in self._outputs.values():
            for group in output.batcher.drain():
                self._send(output, group)
        self._waiting_since_s = None

    def _report(self) -> None:
        """Report what is known to be written, unless the last report was a moment ago: the timer does it then."""
        now_s = time.monotonic()
        if now_s - self._reported_s < progress_reports.REPORT_EVERY_S:
            return
        reports: list[messages.Report] = []
        is_heartbeat_due = now_s - self._heartbeat_s >= progress_reports.HEARTBEAT_EVERY_S
        for output in self._outputs.values():
            if (totals := output.unreported_totals()) is not None:
                reports.append(progress_reports.progress(output.target, self.unit, totals))
                output.reported = totals
            elif is_heartbeat_due and isinstance(output.appender, Stager):
                reports.append(progress_reports.heartbeat(output.target))
                self._heartbeat_s = now_s
        self._send_reports(reports)

    def _send_reports(self, reports: Sequence[messages.Report]) -> None:
        if not reports:
            return
        if self._reports is None:
            self._reports = progress_reports.ReportSender(self._client, next(iter(self._outputs.values())).target)
        self._reports.send(reports)
        self._reported_s = time.monotonic()

    def _stats(self) -> TaskStats:
        sinks = [output.appender for output in self._outputs.values()]
        written = functools.reduce(Totals.sum_of, (appender.written for appender in sinks), Totals())
        return TaskStats(
            rows=sum(appender.rows_done for appender in sinks),
            samples=written.samples,
            bursts=written.bursts,
            raw_bytes=written.raw_bytes,
            stored_bytes=written.stored_bytes,
            retries=sum(appender.outages + appender.aborted_transactions for appender in sinks),
            duplicate_rows=sum(appender.duplicate_rows for appender in sinks),
        )
