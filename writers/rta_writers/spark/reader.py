"""The batch reader of the data source: plans partitions on the driver and reads them in tasks.

The one that takes filters over from Spark is in `pushdown`.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import types as sql
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from rta_wire import errors
from rta_writers.connection import redis_client
from rta_writers.options.read import ReadOptions
from rta_writers.read import batches, plan
from rta_writers.spark.import_guard import Guarded


class RangePartition(InputPartition):
    """A range of entries for one task."""

    def __init__(self, entry_range: plan.EntryRange) -> None:
        super().__init__(entry_range)
        self.entry_range = entry_range


class PartitionReader(Guarded):
    """What the batch reader and the streaming reader share. Spark pickles it, so it holds plain values only."""

    def __init__(self, options: ReadOptions, schema: sql.StructType) -> None:
        self._options = options
        self._columns = schema.fieldNames()
        self._row_filter = batches.RowFilter()
        own_schema = spark_schema(options)
        for field in schema.fields:
            if field.name not in own_schema.fieldNames() or own_schema[field.name].dataType != field.dataType:
                raise errors.Usage(
                    reason=f"Format 'rta' does not give a column {field.simpleString()}; "
                    f"it gives {own_schema.simpleString()}"
                )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in a task."""
        if isinstance(partition, RangePartition):
            for batch in batches.read_batches(self._options, partition.entry_range, self._row_filter):
                yield batch.select(self._columns)


class BatchReader(PartitionReader, DataSourceReader):
    """Reads all entries that are in the stream when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        with redis_client.connect(self._options.redis_url) as client:
            return [RangePartition(entry_range) for entry_range in plan.plan_batch(client, self._options)]


def spark_schema(options: ReadOptions) -> sql.StructType:
    """The columns that a read gives, with Spark's types."""
    return from_arrow_schema(batches.schema(options))
