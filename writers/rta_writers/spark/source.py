"""The Spark data source `rta`: what Spark calls, and nothing else.

Spark pickles a writer, builds it more than once and runs it in other processes than the commit: a writer holds plain
options, and a task takes its identity from the query and the partition, never from the attempt.
"""

import uuid
from typing import ClassVar

from pyspark.errors import PySparkException
from pyspark.sql import types as sql
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.pandas.types import to_arrow_schema

from rta_wire import errors
from rta_writers.control import resolve
from rta_writers.options import read as options_read
from rta_writers.options.write import WriteOptions
from rta_writers.spark import reader as spark_reader
from rta_writers.spark import stream_reader, worker_gc
from rta_writers.spark import writer as spark_writer
from rta_writers.spark.metrics import Metrics
from rta_writers.write import frames


class RtaDataSource(DataSource):
    """`format("rta")`."""

    metrics: ClassVar[Metrics | None] = None
    """Counters of the driver that registered the source."""

    pushdown: ClassVar[bool] = False
    """Whether Spark may hand us filters: it takes a reader that can do so for an error unless its session allows it."""

    @classmethod
    def name(cls) -> str:
        return "rta"

    def schema(self) -> sql.StructType:
        return spark_reader.spark_schema(options_read.ReadOptions.parse(self.options))

    def reader(self, schema: sql.StructType) -> DataSourceReader:
        kind = spark_reader.PushdownReader if self.pushdown else spark_reader.BatchReader
        return kind(dict(self.options), schema)

    def streamReader(self, schema: sql.StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return stream_reader.StreamReader(dict(self.options), schema)

    def writer(self, schema: sql.StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise errors.Usage(reason="Format 'rta' only appends: use .mode(\"append\")")
        options = _checked(dict(self.options), schema)
        return spark_writer.BatchWriter(dict(self.options), options.job or uuid.uuid4().hex, self.metrics)

    def streamWriter(self, schema: sql.StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802 - Spark's names
        _checked(dict(self.options), schema)
        return spark_writer.StreamWriter(dict(self.options), self.metrics)


def _checked(given: dict[str, str], schema: sql.StructType) -> WriteOptions:
    """Refuse what can't be written before any task starts."""
    worker_gc.freeze_gc()
    options = WriteOptions.parse(given)
    try:
        columns = to_arrow_schema(schema, timezone="UTC")
    except PySparkException as error:
        raise errors.Usage(reason=f"Format 'rta' can't take the frame: {error}") from error
    frames.choose_encoder(options, columns)
    resolve.check_open(options)
    return options
