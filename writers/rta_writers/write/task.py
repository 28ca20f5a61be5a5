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
from rta_writers.write.delivery.appender import Appender
from rta_writers.write.delivery.at_least_once import AtLeastOnceAppender
from rta_writers.write.delivery.exactly_once import ExactlyOnceAppender
from rta_writers.write.delivery.staged_delivery import Stager
from rta_writers.write.flush_timer import FlushTimer, TaskGuard
from rta_writers.write.session_sender import SessionSender
from rta_writers.write.task_result import SessionPart, TaskResult, TaskStats
from rta_writers.write.ticks import Tick, TickEncoder

log: Final = logging.getLogger("rta_writers")

CONNECTIONS_MAX: Final = 16
FLUSH_MS: Final = 1000
"""How long rows of a task wait where no option says it: its groups fill by themselves, and larger ones cost less."""

POLL_S: Final = 0.005
"""How long after a group was sent its replies are looked for."""

WAITING_ROWS_MAX: Final = 1_000_000
"""Rows of all sessions together that wait for their groups to fill."""


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
        self._senders: dict[str, SessionSender] = {}
        self._connected: dict[SessionSender, None] = {}
        """Senders that may have a connection, the one that was used last at the end."""
        self._reports: progress_reports.ReportSender | None = None
        self._flush_s = (options.flush_ms or FLUSH_MS) / 1000
        self._waiting_since_s: float | None = None
        """When the first of the rows came that wait now."""
        self._reported_s = -float("inf")
        self._heartbeat_s = time.monotonic()
        self.ticks: TickEncoder | None = None
        """Makes ticks for `write_tick`, None where rows of the frame are none."""
        if isinstance(self._encoder, frames.LongEncoder) and self._encoder.has_plain_rows and options.session:
            self.ticks = TickEncoder(self._encoder)
        self._guard = TaskGuard(unit)
        self._timer = FlushTimer(self)

    @property
    def error(self) -> BaseException | None:
        """What the timer failed with."""
        return self._guard.error

    @property
    def waiting_rows(self) -> int:
        """Rows that are not sent so far."""
        return sum(sender.waiting_rows for sender in self._senders.values())

    @property
    def unwritten_rows(self) -> int:
        """Rows that are not known to be written."""
        return sum(sender.unwritten_rows for sender in list(self._senders.values()))

    @property
    def is_in_child(self) -> bool:
        """Whether this is a copy in a child process, which can't be used."""
        return self._guard.is_in_child

    def check(self, batch: pa.RecordBatch) -> None:
        """Refuse rows that can't be encoded, before any of them is taken. `write` finds them too, but later."""
        if self._divider is not None:
            for identity, stream in self._divider.streams(batch).items():
                name_checks.check_identity(identity)
                if identity in self._senders:
                    row_sessions.check_stream(identity, self._senders[identity].stream, stream)
        self._encoder.check_rows(batch)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take more rows. They are sent when a group is full, or when they have waited for `flushMs`."""
        with self._guard:
            self._add_rows(batch)
            self._send_due()

    def write_tick(self, tick: Tick) -> None:
        """Take the rows of a tick. The same as `write`, and cheaper where `flush` follows."""
        with self._guard:
            sender = self._senders.get(self._options.session or "")
            if sender is None or sender.waiting_rows:
                self._add_rows(tick.to_batch())
                self._send_due()
            else:
                sender.tick = tick
                self._waiting_since_s = time.monotonic()
                self._timer.set_latest(self._waiting_since_s + self._flush_s)

    def _add_rows(self, batch: pa.RecordBatch) -> None:
        parts = [row_sessions.SessionRows(self._options.session or "", self._options.stream, batch)]
        if self._divider is not None:
            parts = list(self._divider.divide(batch))
        self._open_senders({part.identity: part.stream for part in parts if part.identity not in self._senders})
        for part in parts:
            self._add(part)

    def _send_due(self) -> None:
        """Send rows that have waited for long enough, or that are too many, and set the timer for others."""
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
            for sender in self._senders.values():
                self._use_connection(sender)
                totals = sender.appender.totals()
                staged = sender.appender.staged if isinstance(sender.appender, Stager) else None
                parts.append(SessionPart(sender.target, sender.appender.rows_done, totals, staged))
                if staged is None and totals != sender.reported:
                    reports.append(progress_reports.progress(sender.target, self.unit, totals))
                    sender.reported = totals
            self._send_reports(reports)
            if self._reports is not None:
                self._reports.wait()
            self._guard.is_closed = True
            return TaskResult(self.unit, self._epoch, tuple(parts), self._stats())

    def abort(self) -> None:
        """Remove what was staged, where the attempt has failed and will not be committed. After `finish` its commit may
        have begun, and goes on from what was staged."""
        with self._guard.lock:
            if self._guard.is_closed:
                return
            for sender in self._senders.values():
                if isinstance(sender.appender, Stager):
                    try:
                        sender.appender.discard()
                    except retry.OUTAGE_ERRORS:
                        return  # it expires

    def close(self) -> None:
        """Close all connections."""
        self._timer.stop()
        with self._guard.lock:
            self._guard.is_closed = True
            for sender in self._senders.values():
                sender.appender.close()
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
                for sender in self._senders.values():
                    sender.appender.poll()
                self._report()
                self._timer.set_due(self._next_due_s())
        except BaseException as error:  # noqa: BLE001 - raised to the caller, who is in another thread
            if self._guard.is_closed:
                return  # while the lock was waited for
            self._guard.error = error
            log.error("Rows of unit %r could not be sent by the timer: %s", self.unit, error)  # noqa: TRY400 - as above

    def _is_flush_due(self) -> bool:
        return self._waiting_since_s is not None and time.monotonic() - self._waiting_since_s >= self._flush_s

    def _next_due_s(self) -> float | None:
        """When the timer has something to do, None where it has not."""
        due_s = None if self._waiting_since_s is None else self._waiting_since_s + self._flush_s
        for sender in self._senders.values():
            if sender.is_unreported:
                report_s = max(time.monotonic() + POLL_S, self._reported_s + progress_reports.REPORT_EVERY_S)
                return report_s if due_s is None else min(due_s, report_s)
        return due_s

    def _complete(self) -> None:
        self._send_waiting()
        for sender in self._senders.values():
            sender.appender.flush()

    def _add(self, part: row_sessions.SessionRows) -> None:
        sender = self._senders[part.identity]
        row_sessions.check_stream(part.identity, sender.stream, part.stream)
        for group in sender.add(part.rows):
            self._send(sender, group)

    def _open_senders(self, streams: Mapping[str, str]) -> None:
        if not streams:
            return
        for (identity, stream), target in zip(streams.items(), self._resolver.resolve_all(streams), strict=True):
            batcher = RowBatcher(self._encoder.group_rows, self._encoder.group_bytes)
            self._senders[identity] = SessionSender(target, stream, self._open_appender(target), batcher)

    def _open_appender(self, target: Target) -> Appender:
        if self._options.delivery is DeliveryGuarantee.STAGED:
            return Stager(self._client, target, ttl_s=self._options.staged_ttl_s)
        if self._options.delivery is DeliveryGuarantee.AT_LEAST_ONCE:
            return AtLeastOnceAppender(self._client, target, unit=self.unit, epoch=self._epoch)
        return ExactlyOnceAppender(self._client, target, unit=self.unit, epoch=self._epoch)

    def _send(self, sender: SessionSender, group: pa.RecordBatch | Tick) -> None:
        self._use_connection(sender)
        first_row = sender.next_row
        sender.next_row += group.num_rows
        if isinstance(group, Tick):
            sender.appender.append(group.num_rows, group.encode_rows, group.fingerprint_rows)
            return
        encode_rows = functools.partial(self._encode, sender, group, first_row)
        sender.appender.append(group.num_rows, encode_rows, functools.partial(fingerprint.first_rows, group))

    def _use_connection(self, sender: SessionSender) -> None:
        """Note that a sender needs its connection now, and release the one that was not used for longest."""
        self._connected.pop(sender, None)
        if len(self._connected) >= CONNECTIONS_MAX:
            self._release_connection(next(iter(self._connected)))
        self._connected[sender] = None

    def _release_connection(self, sender: SessionSender) -> None:
        sender.appender.flush()
        sender.appender.close()
        self._connected.pop(sender, None)

    def _encode(self, sender: SessionSender, group: pa.RecordBatch, first_row: int, skipped: int) -> Iterator[Burst]:
        """Bursts of a group without its first rows. An error names the row within all that the task got."""
        try:
            yield from self._encoder.bursts(group.slice(skipped) if skipped else group)
        except errors.BadSamples as error:
            if (row := error.facts.get("row")) is None:
                raise
            session = "" if self._options.session is not None else f" of session {sender.target.identity!r}"
            raise frames.at_row(error, first_row + skipped + row, f"{session} in {self.unit!r}") from error

    def _send_waiting(self) -> None:
        for sender in self._senders.values():
            for group in sender.drain():
                self._send(sender, group)
        self._waiting_since_s = None

    def _report(self) -> None:
        """Report what is known to be written, unless the last report was a moment ago: the timer does it then."""
        now_s = time.monotonic()
        if now_s - self._reported_s < progress_reports.REPORT_EVERY_S:
            return
        reports: list[messages.Report] = []
        is_heartbeat_due = now_s - self._heartbeat_s >= progress_reports.HEARTBEAT_EVERY_S
        for sender in self._senders.values():
            if (totals := sender.unreported_totals()) is not None:
                reports.append(progress_reports.progress(sender.target, self.unit, totals))
                sender.reported = totals
            elif is_heartbeat_due and isinstance(sender.appender, Stager):
                reports.append(progress_reports.heartbeat(sender.target))
                self._heartbeat_s = now_s
        self._send_reports(reports)

    def _send_reports(self, reports: Sequence[messages.Report]) -> None:
        if not reports:
            return
        if self._reports is None:
            self._reports = progress_reports.ReportSender(self._client, next(iter(self._senders.values())).target)
        self._reports.send(reports)
        self._reported_s = time.monotonic()

    def _stats(self) -> TaskStats:
        appenders = [sender.appender for sender in self._senders.values()]
        written = functools.reduce(Totals.sum_of, (appender.written for appender in appenders), Totals())
        return TaskStats(
            rows=sum(appender.rows_done for appender in appenders),
            samples=written.samples,
            bursts=written.bursts,
            raw_bytes=written.raw_bytes,
            stored_bytes=written.stored_bytes,
            retries=sum(appender.outages + appender.aborted_transactions for appender in appenders),
            duplicate_rows=sum(appender.duplicate_rows for appender in appenders),
        )
