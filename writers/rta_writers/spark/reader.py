"""The reading half of the Spark data source: rows of a session or a stream, in batch and as a stream of entries."""

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
from pyspark.sql import types as sql
from pyspark.sql.datasource import (
    DataSourceReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema

from rta_wire import errors
from rta_writers.connection import redis_client
from rta_writers.options import read as options_read
from rta_writers.read import batches
from rta_writers.read import plan as read_plan
from rta_writers.read.batches import RowFilter
from rta_writers.spark import pushdown


def spark_schema(options: options_read.ReadOptions) -> sql.StructType:
    """The columns that a read gives, as Spark names them."""
    return from_arrow_schema(batches.schema(options))


class RangePartition(InputPartition):
    """A range of entries for one task."""

    def __init__(self, where: read_plan.EntryRange) -> None:
        super().__init__(where)
        self.entry_range = where


class PartitionReader:
    """What both readers do in a task."""

    def __init__(self, given: dict[str, str], schema: sql.StructType) -> None:
        self._given = given
        self._names = schema.fieldNames()
        self._bounds = RowFilter()
        ours = spark_schema(options_read.ReadOptions.parse(given))
        for field in schema.fields:
            if field.name not in ours.fieldNames() or ours[field.name].dataType != field.dataType:
                raise errors.Usage(
                    reason=f"Format 'rta' does not give a column {field.simpleString()}; it gives {ours.simpleString()}"
                )

    def read_partition(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            options = options_read.ReadOptions.parse(self._given)
            for batch in batches.read_batches(options, partition.entry_range, self._bounds):
                yield batch.select(self._names)


class BatchReader(PartitionReader, DataSourceReader):
    """Everything that stands in the stream when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        options = options_read.ReadOptions.parse(self._given)
        with redis_client.connect(options.redis_url) as client:
            place = read_plan.find_position(client, options)
            now = read_plan.counters(client, options, place.stream)
            if options.starting_offset == options_read.LATEST:
                return []
            if options.starting_offset != options_read.EARLIEST:
                place = msgspec.structs.replace(place, after=options.starting_offset)
            missing = read_plan.count_missing(client, options, place, now)
            if missing is None or (missing and options.session is not None):
                read_plan.report_gap(options, place.stream, place.after, missing)
            names = read_plan.identities(client, options, place)
            return [RangePartition(one) for one in read_plan.ranges(place, now, options, names, now.last_id)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.read_partition(partition)


class PushdownReader(BatchReader):
    """Takes filters over from Spark. Spark refuses such a reader unless the session allows it, so it is one apart."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for one in filters:
            bounds = pushdown.push_filter(self._bounds, one)
            if bounds is None:
                yield one
            else:
                self._bounds = bounds
