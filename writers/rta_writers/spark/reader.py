"""The batch reader of the data source: plans partitions on the driver and reads them in tasks.

The one that takes filters over from Spark is in `pushdown`.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import types as sql
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from rta_wire import errors
from rta_writers.connection import redis_client
from rta_writers.options.read import ReadForm, ReadOptions
from rta_writers.read import archive_batches, batches, channels, lookup, plan, session_names, wide
from rta_writers.spark import worker_log
from rta_writers.spark.import_guard import Guarded


class RangePartition(InputPartition):
    """A range of entries or files for one task, and the configurations of the sessions in it."""

    def __init__(self, any_range: plan.AnyRange, bindings: channels.SessionBindings) -> None:
        super().__init__(any_range)
        self.any_range = any_range
        self.bindings = bindings


class WidePartition(InputPartition):
    """What one task reads of a session in wide form."""

    def __init__(self, wide_range: wide.WideRange) -> None:
        super().__init__(wide_range)
        self.wide_range = wide_range


def to_partitions(ranges: Iterable[plan.AnyRange], bindings: channels.SessionBindings) -> list[InputPartition]:
    """A partition for each range."""
    return [RangePartition(one, bindings) for one in ranges]


class PartitionReader(Guarded):
    """What the batch reader and the streaming reader share. Spark pickles it, so it holds plain values only."""

    def __init__(self, options: ReadOptions, schema: sql.StructType) -> None:
        """`options`: as `resolve` gives them."""
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
        worker_log.let_info_through()
        if isinstance(partition, RangePartition):
            for batch in archive_batches.read_range(
                self._options, partition.any_range, self._row_filter, partition.bindings
            ):
                yield batch.select(self._columns)
        elif isinstance(partition, WidePartition):
            for batch in wide.read_batches(self._options, partition.wide_range, self._row_filter):
                yield batch.select(self._columns)


class BatchReader(PartitionReader, DataSourceReader):
    """Reads all entries that are in the stream when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        worker_log.let_info_through()
        options = self._options
        with redis_client.connect(options.redis_url) as client:
            if options.form is ReadForm.WIDE:
                return [WidePartition(one) for one in wide.plan_ranges(client, options, self._row_filter)]
            ranges = plan.plan_read(client, options, self._row_filter.of_samples)
            identities = ranges[0].identities if ranges else {}
            bindings = channels.read_bindings(client, lookup.learn_names(client, options), identities)
            return to_partitions(ranges, bindings)


def resolve(options: ReadOptions) -> ReadOptions:
    """The options with the identity of their session, and with what its configuration says about the columns."""
    options = session_names.resolve(options)
    if options.form is not ReadForm.SAMPLES or not (options.session or options.config or options.wants_names):
        return options
    with redis_client.connect(options.redis_url) as client:
        return channels.resolve(client, options)


def spark_schema(options: ReadOptions) -> sql.StructType:
    """The columns that a read gives, with Spark's types. `options`: as `resolve` gives them."""
    if options.form is not ReadForm.WIDE:
        return from_arrow_schema(batches.schema(options))
    with redis_client.connect(options.redis_url) as client:
        return from_arrow_schema(wide.schema(channels.wide_channels(client, options)))
