"""The streaming reader of the data source: entries as they are added, with a bound for each trigger."""

import importlib
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import types as sql
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rta_wire import entry_ids, errors
from rta_writers.connection import redis_client
from rta_writers.options.read import EARLIEST, LATEST, ReadOptions
from rta_writers.read import plan
from rta_writers.spark import reader

Offset = dict[str, Any]
"""`id` of the last entry that was read, and `added`, how many entries there ever were by then, where that is known."""

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


class StreamReader(reader.PartitionReader, SupportsTriggerAvailableNow, DataSourceStreamReader):
    """Reads a session or a stream as a streaming query."""

    def __init__(self, options: ReadOptions, schema: sql.StructType) -> None:
        super().__init__(options, schema)
        self._identities: dict[int, str] | None = None
        self._end: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        options = self._options
        if options.starting_offset == LATEST:
            return self._latest()
        if options.starting_offset != EARLIEST:
            return {"id": options.starting_offset}
        return {"id": plan.find_position(redis_client.shared_client(options.redis_url), options).after}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """End the query after the entries that are in the stream now."""
        self._end = self._latest()

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: ARG002, N802 - Spark's names; 4.1 gives neither
        latest = self._end or self._latest()
        max_entries = self._options.max_entries_per_trigger
        if max_entries is None:
            return latest
        if start is None:
            raise errors.Usage(reason="Option 'maxEntriesPerTrigger' needs Spark 4.2 or newer: leave it out")
        return self._limited(start, latest, max_entries)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        options = self._options
        client = redis_client.shared_client(options.redis_url)
        position = msgspec.structs.replace(plan.find_position(client, options), after=start["id"])
        counters = plan.read_counters(client, options, position.stream)
        missing = plan.count_missing(client, options, position, counters, start.get("added"))
        if missing != 0:
            plan.report_gap(options, position.stream, position.after, missing)
        if self._identities is None or options.session is None:
            self._identities = (self._identities or {}) | plan.read_identities(client, options, position)
        ranges = plan.plan_ranges(position, counters, options, self._identities, end["id"])
        return [reader.RangePartition(entry_range) for entry_range in ranges]

    def commit(self, end: Offset) -> None:
        """Does nothing: entries are not removed by reading them."""

    def stop(self) -> None:
        """Does nothing: no connection is this reader's own."""

    def _latest(self) -> Offset:
        client = redis_client.shared_client(self._options.redis_url)
        stream = plan.find_position(client, self._options).stream
        counters = plan.read_counters(client, self._options, stream)
        return {"id": counters.last_id, "added": counters.added}

    def _limited(self, start: Offset, latest: Offset, max_entries: int) -> Offset:
        """The offset that is `max_entries` after the start, or the latest one where that is nearer."""
        added = start.get("added")
        if added is not None and latest["added"] - added <= max_entries:
            return latest
        options = self._options
        client = redis_client.shared_client(options.redis_url)
        position = msgspec.structs.replace(plan.find_position(client, options), after=start["id"])
        removed = plan.read_counters(client, options, position.stream).removed
        last_id = plan.nth_id_after(client, options, position, max_entries)
        if last_id is None or entry_ids.is_after(last_id, latest["id"]):
            return latest
        if added is None and position.after != entry_ids.MIN:
            return {"id": last_id}
        return {"id": last_id, "added": max(added or 0, removed) + max_entries}
