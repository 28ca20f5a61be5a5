"""One task: rows of one unit in one epoch, to the sessions that they belong to. Knows nothing of Spark.

Rows are counted for each session on its own, in the order in which they come, so a retry that gets the same rows in
the same order counts the same. At most `LINES_MAX` connections are open and about two groups are in memory for each.
"""

import functools
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rta_wire import errors
from rta_wire.codec import encode
from rta_wire.control.totals import Totals
from rta_writers.connection import redis_client, retry
from rta_writers.control import resolve
from rta_writers.options.target import Target
from rta_writers.options.write import DeliveryGuarantee, WriteOptions
from rta_writers.write import at_least_once, batching, exactly_once, frames, progress, result
from rta_writers.write import fingerprint as write_fingerprint
from rta_writers.write import sink as write_sink
from rta_writers.write import staged as write_staged

CONNECTIONS_MAX: Final = 16
WAITING_ROWS_MAX: Final = 1_000_000
"""Rows of all sessions together that wait for their groups to fill."""


class _SessionOutput:
    """The way of one session's rows: groups, bursts, sink."""

    def __init__(self, target: Target, sink: write_sink.Sink, group_rows: int) -> None:
        self.target = target
        self.sink = sink
        self.groups = batching.RowBatcher(group_rows)
        self.next_row = 0
        self.reported = Totals()
        self.used_s = 0.0


class Task:
    """Takes batches; `finish` when there are no more."""

    def __init__(self, options: WriteOptions, schema: pa.Schema, *, unit: str, epoch: int) -> None:
        self._options = options
        self._unit = unit
        self._epoch = epoch
        self._form = frames.choose_encoder(options, schema)
        self._client = redis_client.connect(options.redis_url)
        self._opener = resolve.SessionResolver(options, unit.rpartition("/")[0] or unit)
        self._outputs: dict[str, _SessionOutput] = {}
        self._reported_s = time.monotonic()
        self._flushed_s = time.monotonic()

    def write(self, batch: pa.RecordBatch) -> None:
        """More rows. They are sent when there are enough of them, or when they have waited for a second."""
        if self._options.session is not None:
            self._add(self._options.session, batch)
        else:
            for identity, part in by_session(batch):
                self._add(identity, part)
        now_s = time.monotonic()
        waiting = sum(lane.groups.waiting_rows for lane in self._outputs.values())
        if waiting > WAITING_ROWS_MAX or now_s - self._flushed_s >= progress.REPORT_EVERY_S:
            self._send_rest()
        if now_s - self._reported_s >= progress.REPORT_EVERY_S:
            self._report()

    def flush(self) -> None:
        """Everything that was written stands in its stream, or is staged, when this returns."""
        self._send_rest()
        for lane in self._outputs.values():
            lane.sink.flush()
        self._report()

    def finish(self) -> result.TaskResult:
        """Everything stands in its stream, or is staged; reported exactly."""
        self._send_rest()
        shares = []
        for lane in self._outputs.values():
            totals = lane.sink.totals()
            part = lane.sink.staged if isinstance(lane.sink, write_staged.Stager) else None
            shares.append(result.SessionPart(lane.target, lane.sink.rows_done, totals, part))
            if part is None and totals != lane.reported:
                progress.send_progress(self._client, lane.target, self._unit, totals)
        sinks = [lane.sink for lane in self._outputs.values()]
        written = functools.reduce(Totals.sum_of, (sink.written for sink in sinks), Totals())
        effort = result.TaskStats(
            rows=sum(sink.rows_done for sink in sinks),
            samples=written.samples,
            bursts=written.bursts,
            raw_bytes=written.raw_bytes,
            stored_bytes=written.stored_bytes,
            retries=sum(sink.outages + sink.aborted_transactions for sink in sinks),
            duplicate_rows=sum(sink.duplicate_rows for sink in sinks),
        )
        return result.TaskResult(self._unit, self._epoch, tuple(shares), effort)

    def abort(self) -> None:
        """The attempt is over without a result: remove what nobody will ever commit."""
        for lane in self._outputs.values():
            if isinstance(lane.sink, write_staged.Stager):
                try:
                    lane.sink.discard()
                except retry.OUTAGE_ERRORS:
                    return  # it expires

    def close(self) -> None:
        for lane in self._outputs.values():
            lane.sink.close()
        self._opener.close()
        self._client.close()

    def _add(self, identity: str, batch: pa.RecordBatch) -> None:
        lane = self._outputs.get(identity) or self._open_output(identity)
        for group in lane.groups.add(batch):
            self._send(lane, group)

    def _open_output(self, identity: str) -> _SessionOutput:
        target = self._opener.resolve(identity)
        lane = _SessionOutput(target, self._sink(target), self._form.group_rows)
        self._outputs[identity] = lane
        return lane

    def _sink(self, target: Target) -> write_sink.Sink:
        if self._options.delivery is DeliveryGuarantee.STAGED:
            return write_staged.Stager(self._client, target, ttl_s=self._options.staged_ttl_s)
        if self._options.delivery is DeliveryGuarantee.AT_LEAST_ONCE:
            return at_least_once.AtLeastOnceAppender(self._client, target, unit=self._unit, epoch=self._epoch)
        return exactly_once.ExactlyOnceAppender(self._client, target, unit=self._unit, epoch=self._epoch)

    def _send(self, lane: _SessionOutput, group: pa.RecordBatch) -> None:
        lane.used_s = time.monotonic()
        if len(self._outputs) > CONNECTIONS_MAX:
            self._release_idle_connections()
        encode_rest = functools.partial(self._encode, lane, group, lane.next_row)
        lane.next_row += group.num_rows
        lane.sink.append(group.num_rows, encode_rest, functools.partial(write_fingerprint.group_fingerprint, group))

    def _release_idle_connections(self) -> None:
        by_use = sorted(self._outputs.values(), key=lambda lane: lane.used_s)
        for lane in by_use[:-CONNECTIONS_MAX]:
            lane.sink.flush()
            lane.sink.close()

    def _encode(self, lane: _SessionOutput, group: pa.RecordBatch, first_row: int, skip: int) -> Iterator[encode.Burst]:
        try:
            yield from self._form.bursts(group.slice(skip) if skip else group)
        except errors.BadSamples as error:
            if (row := error.facts.get("row")) is None:
                raise
            of = "" if self._options.session is not None else f" of session {lane.target.identity!r}"
            raise frames.at_row(error, first_row + skip + row, f"{of} in {self._unit!r}") from error

    def _send_rest(self) -> None:
        for lane in self._outputs.values():
            for group in lane.groups.drain():
                self._send(lane, group)
        self._flushed_s = time.monotonic()

    def _report(self) -> None:
        for lane in self._outputs.values():
            totals = lane.sink.known_totals()
            if isinstance(lane.sink, write_staged.Stager):
                progress.send_heartbeat(self._client, lane.target)
            elif totals != lane.reported:
                progress.send_progress(self._client, lane.target, self._unit, totals)
                lane.reported = totals
        self._reported_s = time.monotonic()


def by_session(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows by the session that they name, each session's in the order in which they came."""
    spot = batch.schema.get_field_index(frames.SESSION)
    names = batch.column(spot)
    if names.null_count:
        row = int(np.argmax(names.is_null().to_numpy(zero_copy_only=False)))
        raise errors.BadSamples(reason=f"row {row} of a batch: the session is null", row=row)
    rest = pa.RecordBatch.from_arrays(
        [column for at, column in enumerate(batch.columns) if at != spot],
        schema=batch.schema.remove(spot),
    )
    coded = names.dictionary_encode()
    codes = coded.indices.to_numpy()
    identities: Sequence[Any] = coded.dictionary.to_pylist()
    if len(identities) == 1:
        yield identities[0], rest
        return
    for code, identity in enumerate(identities):
        yield identity, rest.take(pa.array(np.flatnonzero(codes == code)))
