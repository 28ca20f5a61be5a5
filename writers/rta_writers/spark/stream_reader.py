"""The streaming half of reading on Spark: entries as they come, at most so many in a trigger."""

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql import types as sql
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rta_wire import errors
from rta_writers.connection import redis_client
from rta_writers.read import plan as read_plan
from rta_writers.spark import reader

Offset = dict[str, Any]

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
else:
    try:
        SupportsTriggerAvailableNow = importlib.import_module(
            "pyspark.sql.streaming.datasource"
        ).SupportsTriggerAvailableNow
    except ModuleNotFoundError:  # before Spark 4.2, which reads all in one batch then
        SupportsTriggerAvailableNow = object


class StreamReader(reader.Reading, SupportsTriggerAvailableNow, DataSourceStreamReader):
    """An offset is the id of the last entry read, and how many there ever were by then where that is known."""

    def __init__(self, given: dict[str, str], schema: sql.StructType) -> None:
        super().__init__(given, schema)
        self._identities: dict[int, str] | None = None
        self._last: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        options = read_plan.Options.read(self._given)
        if options.starting_offset == read_plan.LATEST:
            return self._latest(options)
        if options.starting_offset != read_plan.EARLIEST:
            return {"id": options.starting_offset}
        return {"id": read_plan.find(redis_client.shared(options.redis_url), options).after}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read up to what is there now, and then end."""
        self._last = self._latest(read_plan.Options.read(self._given))

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: ARG002, N802 - Spark's names; 4.1 gives neither
        options = read_plan.Options.read(self._given)
        latest = self._last or self._latest(options)
        most = options.max_entries_per_trigger
        if most is None:
            return latest
        if start is None:
            raise errors.Usage(reason="Option 'maxEntriesPerTrigger' needs Spark 4.2 or newer: leave it out")
        return self._limited(options, start, latest, most)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        options = read_plan.Options.read(self._given)
        client = redis_client.shared(options.redis_url)
        place = msgspec.structs.replace(read_plan.find(client, options), after=start["id"])
        now = read_plan.counters(client, options, place.stream)
        missing = read_plan.lost(client, options, place, now, start.get("added"))
        if missing != 0:
            read_plan.report_gap(options, place.stream, place.after, missing)
        if self._identities is None or options.session is None:
            self._identities = (self._identities or {}) | read_plan.identities(client, options, place)
        ranges = read_plan.ranges(place, now, options, self._identities, end["id"])
        return [reader.RangePartition(one) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.rows(partition)

    def commit(self, end: Offset) -> None:
        """Nothing is kept for us."""

    def stop(self) -> None:
        """Nothing is held open."""

    def _latest(self, options: read_plan.Options) -> Offset:
        client = redis_client.shared(options.redis_url)
        now = read_plan.counters(client, options, read_plan.find(client, options).stream)
        return {"id": now.last_id, "added": now.added}

    def _limited(self, options: read_plan.Options, start: Offset, latest: Offset, most: int) -> Offset:
        before = start.get("added")
        if before is not None and latest["added"] - before <= most:
            return latest
        client = redis_client.shared(options.redis_url)
        place = msgspec.structs.replace(read_plan.find(client, options), after=start["id"])
        removed = read_plan.counters(client, options, place.stream).removed
        last = read_plan.nth_after(client, options, place, most)
        if last is None or read_plan.is_after(last, latest["id"]):
            return latest
        if before is None and place.after != read_plan.START:
            return {"id": last}
        return {"id": last, "added": max(before or 0, removed) + most}
