"""One task: rows of one unit in one epoch, to the sessions that they belong to. Does not import Spark.

Rows are counted for each session on its own, in the order in which they arrive, so a retry that gets the same rows in
the same order counts the same. At most `CONNECTIONS_MAX` connections are open, and about two groups of rows are in
memory for each.
"""

import functools
import time
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa

from rta_wire import errors, name_checks
from rta_wire.codec.burst import Burst
from rta_wire.codec.columns import RowBatcher
from rta_wire.control.totals import Totals
from rta_writers.connection import redis_client, retry
from rta_writers.control.session_resolver import SessionResolver
from rta_writers.options.target import Target
from rta_writers.options.write import DeliveryGuarantee, WriteOptions
from rta_writers.write import fingerprint, frames, progress_reports, row_sessions, task_unit
from rta_writers.write.appender import Appender
from rta_writers.write.at_least_once import AtLeastOnceAppender
from rta_writers.write.exactly_once import ExactlyOnceAppender
from rta_writers.write.staged_delivery import Stager
from rta_writers.write.task_result import SessionPart, TaskResult, TaskStats

CONNECTIONS_MAX: Final = 16
WAITING_ROWS_MAX: Final = 1_000_000
"""Rows of all sessions together that wait for their groups to fill."""


class _SessionOutput:
    """The rows of one session on their way: gathered into groups, then sent to its appender."""

    def __init__(self, target: Target, stream: str, appender: Appender, group_rows: int) -> None:
        self.target = target
        self.stream = stream
        """The stream that was asked for; with a stream per day that of the target has a day in its name."""
        self.appender = appender
        self.batcher = RowBatcher(group_rows, frames.GROUP_BYTES_MAX)
        self.next_row = 0
        self.reported = Totals()


class Task:
    """Takes batches of rows with `write`, and ends with `finish`, or with `abort` where something failed."""

    def __init__(self, options: WriteOptions, schema: pa.Schema, *, unit: str, epoch: int) -> None:
        self._options = options
        self._unit = unit
        self._epoch = epoch
        self._encoder = frames.choose_encoder(options, schema)
        self._divider = row_sessions.RowDivider(options, self._encoder, schema) if options.session is None else None
        self._client = redis_client.connect(options.redis_url)
        self._resolver = SessionResolver(options, task_unit.job_of(unit) or unit)
        self._outputs: dict[str, _SessionOutput] = {}
        self._connected: dict[_SessionOutput, None] = {}
        """Outputs that may have a connection, the one that was used last at the end."""
        self._reported_s = time.monotonic()
        self._flushed_s = time.monotonic()

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
        """Take more rows. They are sent when a group is full, or when they have waited for a second."""
        parts = [row_sessions.SessionRows(self._options.session or "", self._options.stream, batch)]
        if self._divider is not None:
            parts = list(self._divider.divide(batch))
        self._open_outputs({part.identity: part.stream for part in parts if part.identity not in self._outputs})
        for part in parts:
            self._add(part)
        now_s = time.monotonic()
        waiting_rows = sum(output.batcher.waiting_rows for output in self._outputs.values())
        if waiting_rows > WAITING_ROWS_MAX or now_s - self._flushed_s >= progress_reports.REPORT_EVERY_S:
            self._send_waiting()
        if now_s - self._reported_s >= progress_reports.REPORT_EVERY_S:
            self._report()

    def flush(self) -> None:
        """Wait until all rows are in their streams, or are staged, and report them."""
        self._send_waiting()
        for output in self._outputs.values():
            output.appender.flush()
        self._report()

    def finish(self) -> TaskResult:
        """Wait until all rows are in their streams, or are staged, and report the exact totals."""
        self._send_waiting()
        parts = []
        for output in self._outputs.values():
            self._use_connection(output)
            totals = output.appender.totals()
            staged = output.appender.staged if isinstance(output.appender, Stager) else None
            parts.append(SessionPart(output.target, output.appender.rows_done, totals, staged))
            if staged is None and totals != output.reported:
                progress_reports.send_progress(self._client, output.target, self._unit, totals)
        return TaskResult(self._unit, self._epoch, tuple(parts), self._stats())

    def abort(self) -> None:
        """Remove what was staged, where the attempt has failed and will not be committed."""
        for output in self._outputs.values():
            if isinstance(output.appender, Stager):
                try:
                    output.appender.discard()
                except retry.OUTAGE_ERRORS:
                    return  # it expires

    def close(self) -> None:
        """Close all connections."""
        for output in self._outputs.values():
            output.appender.close()
        self._resolver.close()
        self._client.close()

    def _add(self, part: row_sessions.SessionRows) -> None:
        output = self._outputs[part.identity]
        row_sessions.check_stream(part.identity, output.stream, part.stream)
        for group in output.batcher.add(part.rows):
            self._send(output, group)

    def _open_outputs(self, streams: Mapping[str, str]) -> None:
        if not streams:
            return
        for (identity, stream), target in zip(streams.items(), self._resolver.resolve_all(streams), strict=True):
            appender = self._open_appender(target)
            self._outputs[identity] = _SessionOutput(target, stream, appender, self._encoder.group_rows)

    def _open_appender(self, target: Target) -> Appender:
        if self._options.delivery is DeliveryGuarantee.STAGED:
            return Stager(self._client, target, ttl_s=self._options.staged_ttl_s)
        if self._options.delivery is DeliveryGuarantee.AT_LEAST_ONCE:
            return AtLeastOnceAppender(self._client, target, unit=self._unit, epoch=self._epoch)
        return ExactlyOnceAppender(self._client, target, unit=self._unit, epoch=self._epoch)

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
            raise frames.at_row(error, first_row + skipped + row, f"{session} in {self._unit!r}") from error

    def _send_waiting(self) -> None:
        for output in self._outputs.values():
            for group in output.batcher.drain():
                self._send(output, group)
        self._flushed_s = time.monotonic()

    def _report(self) -> None:
        for output in self._outputs.values():
            totals = output.appender.known_totals()
            if isinstance(output.appender, Stager):
                progress_reports.send_heartbeat(self._client, output.target)
            elif totals != output.reported:
                progress_reports.send_progress(self._client, output.target, self._unit, totals)
                output.reported = totals
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
