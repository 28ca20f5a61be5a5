"""The streaming reader of the data source: entries as they are added, with a bound for each trigger."""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import redis
from pyspark.sql import types as sql
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rta_wire import errors
from rta_wire.stream import source_cursor
from rta_wire.stream.source_cursor import Offset, SourcePosition
from rta_writers.connection import redis_client, retry
from rta_writers.options.read import EARLIEST, LATEST, ReadForm, ReadOptions
from rta_writers.read import archive_files, archive_ranges, channels, lookup, plan
from rta_writers.spark import reader

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
else:
    try:
        SupportsTriggerAvailableNow = importlib.import_module(
            "pyspark.sql.streaming.datasource"
        ).SupportsTriggerAvailableNow
    except ModuleNotFoundError:

        class SupportsTriggerAvailableNow:
            """Stands in on a Spark before 4.2, which reads all in one batch for that trigger."""


T = TypeVar("T")


class StreamReader(reader.PartitionReader, SupportsTriggerAvailableNow, DataSourceStreamReader):
    """Reads a session, a stream or a source with its days as a streaming query."""

    def __init__(self, options: ReadOptions, schema: sql.StructType) -> None:
        if options.form is ReadForm.WIDE:
            raise errors.Usage(
                reason="A streaming query can't read in form 'wide': samples of one time may come in two batches. Read "
                "samples, and group them by time with a watermark"
            )
        super().__init__(options, schema)
        self._identities: dict[int, str] = {}
        self._end: SourcePosition | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        client, options, source = self._find()
        counters = lookup.read_counters(client, options, source.streams)
        lookup.check_known(client, options, source, counters)
        if options.starting_offset == LATEST:
            return SourcePosition.latest(source.name, counters).dump()
        if options.starting_offset != EARLIEST:
            return SourcePosition.after(source.name, options.starting_offset, counters).dump()
        if options.session is not None:
            return {"id": source.after}
        return SourcePosition.earliest(source.name, counters).dump()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """End the query after the entries that are in the stream now."""
        client, options, source = self._find()
        self._end = SourcePosition.latest(source.name, archive_ranges.read_source_counters(client, options, source))

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: ARG002, N802 - Spark's names; 4.1 gives neither
        return self._ride_out(lambda: self._latest_offset(start))

    def _latest_offset(self, start: Offset | None) -> Offset:
        client, options, source = self._find()
        counters = archive_ranges.read_source_counters(client, options, source)
        latest = self._end or SourcePosition.latest(source.name, counters)
        if options.max_entries_per_trigger is None:
            return latest.dump()
        if start is None:
            raise errors.Usage(reason="Option 'maxEntriesPerTrigger' needs Spark 4.2 or newer: leave it out")
        before = SourcePosition.load(latest.source, start)
        if (archived := _next_archived(source, before, latest)) is not None:
            return archived.dump()
        advance = source_cursor.BoundedAdvance(before, latest, counters, options.max_entries_per_trigger)
        while (wanted := advance.next_lookup()) is not None:
            position = source.position(wanted.stream, wanted.after)
            advance.take_id(plan.nth_id_after(client, options, position, wanted.entries))
        return advance.position.dump()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        return self._ride_out(lambda: self._plan(start, end))

    def _plan(self, start: Offset, end: Offset) -> list[InputPartition]:
        client, options, source = self._find()
        steps = SourcePosition.load(source.name, start), SourcePosition.load(source.name, end)
        if not self._identities or options.session is None:
            self._identities |= lookup.read_identities(client, options, source, source.streams)
        ranges = plan.plan_step(client, options, source, steps, self._identities)
        bindings = channels.read_bindings(client, options, self._identities) if ranges else {}
        return reader.to_partitions(ranges, bindings)

    def commit(self, end: Offset) -> None:
        """Does nothing: entries are not removed by reading them."""

    def stop(self) -> None:
        """Does nothing: no connection is this reader's own."""

    def _ride_out(self, step: Callable[[], T]) -> T:
        """The result of a step of a query that runs, through a short outage of Redis."""
        policy = retry.RetryPolicy(self._options.redis_url)
        while True:
            try:
                result = step()
            except errors.RedisUnreachable as error:
                policy.wait(error.__cause__ or error)
            else:
                policy.reset()
                return result

    def _find(self) -> tuple[redis.Redis, ReadOptions, lookup.ReadSource]:
        """What is read, as it is now: days come and go while a query runs."""
        client = redis_client.shared_client(self._options.redis_url)
        self._options = lookup.learn_names(client, self._options)
        return client, self._options, lookup.find_source(client, self._options, archive_files.find_kept_session)


def _next_archived(source: lookup.ReadSource, before: SourcePosition, latest: SourcePosition) -> SourcePosition | None:
    """The end of the part of the archive that is read next, None where the stream goes on: a step takes whole parts,
    or what of one comes before the end of the query."""
    if source.stored is None:
        return None
    after, until = (position.position(source.name).id for position in (before, latest))
    for segment in source.stored.archive.segments(after, until):
        part = segment.part
        added = part.added or None if part is not None and part.until == segment.until else None
        return SourcePosition(source.name, {source.name: source_cursor.StreamPosition(segment.until, added)})
    return None
