"""The streaming half of reading on Spark: entries as they come, at most so many in a trigger."""

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql import types as sql
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rta_wire import entry_ids, errors
from rta_writers.connection import redis_client
from rta_writers.options import read as options_read
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


class StreamReader(reader.PartitionReader, SupportsTriggerAvailableNow, DataSourceStreamReader):
    """An offset is the id of the last entry read, and how many there ever were by then where that is known."""

    def __init__(self, given: dict[str, str], schema: sql.StructType) -> None:
        super().__init__(given, schema)
        self._identities: dict[int, str] | None = None
        self._last: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        options = options_read.ReadOptions.parse(self._given)
        if options.starting_offset == options_read.LATEST:
            return self._latest(options)
        if options.starting_offset != options_read.EARLIEST:
            return {"id": options.starting_offset}
        return {"id": read_plan.find_position(redis_client.shared_client(options.redis_url), options).after}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read up to what is there now, and then end."""
        self._last = self._latest(options_read.ReadOptions.parse(self._given))

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: ARG002, N802 - Spark's names; 4.1 gives neither
        options = options_read.ReadOptions.parse(self._given)
        latest = self._last or self._latest(options)
        most = options.max_entries_per_trigger
        if most is None:
            return latest
        if start is None:
            raise errors.Usage(reason="Option 'maxEntriesPerTrigger' needs Spark 4.2 or newer: leave it out")
        return self._limited(options, start, latest, most)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        options = options_read.ReadOptions.parse(self._given)
        client = redis_client.shared_client(options.redis_url)
        place = msgspec.structs.replace(read_plan.find_position(client, options), after=start["id"])
        now = read_plan.counters(client, options, place.stream)
        missing = read_plan.count_missing(client, options, place, now, start.get("added"))
        if missing != 0:
            read_plan.report_gap(options, place.stream, place.after, missing)
        if self._identities is None or options.session is None:
            self._identities = (self._identities or {}) | read_plan.identities(client, options, place)
        ranges = read_plan.ranges(place, now, options, self._identities, end["id"])
        return [reader.RangePartition(one) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.read_partition(partition)

    def commit(self, end: Offset) -> None:
        """Nothing is kept for us."""

    def stop(self) -> None:
        """Nothing is held open."""

    def _latest(self, options: options_read.ReadOptions) -> Offset:
        client = redis_client.shared_client(options.redis_url)
        now = read_plan.counters(client, options, read_plan.find_position(client, options).stream)
        return {"id": now.last_id, "added": now.added}

    def _limited(self, options: options_read.ReadOptions, start: Offset, latest: Offset, most: int) -> Offset:
        before = start.get("added")
        if before is not None and latest["added"] - before <= most:
            return latest
        client = redis_client.shared_client(options.redis_url)
        place = msgspec.structs.replace(read_plan.find_position(client, options), after=start["id"])
        removed = read_plan.counters(client, options, place.stream).removed
        last = read_plan.nth_after(client, options, place, most)
        if last is None or entry_ids.is_after(last, latest["id"]):
            return latest
        if before is None and place.after != entry_ids.MIN:
            return {"id": last}
        return {"id": last, "added": max(before or 0, removed) + most}
