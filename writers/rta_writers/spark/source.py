"""The Spark data source `rta`: checks options and columns, and makes the readers and writers that Spark runs."""

import inspect
import sys
from typing import Any, Final

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
from rta_writers.control import configs, session_resolver
from rta_writers.options.read import ReadOptions
from rta_writers.options.write import WriteOptions
from rta_writers.spark import pushdown as spark_pushdown
from rta_writers.spark import reader as spark_reader
from rta_writers.spark import stream_reader, worker_gc
from rta_writers.spark import writer as spark_writer
from rta_writers.spark.metrics import Metrics
from rta_writers.write import frames, task_unit

ARROW_SCHEMA_OPTIONS: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)
"""Spark 4.1 has no choice of the time zone of timestamps: it is UTC there."""

FILTER_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module of Spark's Python process that offers filters to a reader."""


class RtaDataSource(DataSource):
    """`format("rta")`."""

    metrics: Metrics | None = None
    """Counters of the driver that registered the source."""

    @classmethod
    def name(cls) -> str:
        return "rta"

    def schema(self) -> sql.StructType:
        return spark_reader.spark_schema(self._read_options())

    def reader(self, schema: sql.StructType) -> DataSourceReader:
        options = self._read_options()
        pushes = spark_pushdown.KEEPS_QUERIES_APART if options.push_filters is None else options.push_filters
        reader_class = spark_pushdown.PushdownReader if pushes and _takes_filters() else spark_reader.BatchReader
        return reader_class(options, schema)

    def streamReader(self, schema: sql.StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return stream_reader.StreamReader(self._read_options(), schema)

    def _read_options(self) -> ReadOptions:
        return spark_reader.resolve(ReadOptions.parse(self.options))

    def writer(self, schema: sql.StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise errors.Usage(reason="Format 'rta' only appends: use .mode(\"append\")")
        options = self.write_options(schema)
        return spark_writer.BatchWriter(options, task_unit.job_name(options), self.metrics)

    def streamWriter(self, schema: sql.StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802 - Spark's names
        return spark_writer.StreamWriter(self.write_options(schema), self.metrics)

    def write_options(self, schema: sql.StructType) -> WriteOptions:
        """The options of a writer. Raises before any task starts where the frame can't be written."""
        worker_gc.freeze_gc()
        options = WriteOptions.parse(self.options)
        try:
            columns = to_arrow_schema(schema, **ARROW_SCHEMA_OPTIONS)
        except PySparkException as error:
            raise errors.Usage(reason=f"Format 'rta' can't take the frame: {error}") from error
        frames.choose_encoder(configs.with_channels(options), columns)
        return session_resolver.check_open(options)


def _takes_filters() -> bool:
    """Whether Spark asks for a reader in order to offer it filters.

    Only then a reader may have `pushFilters`: Spark refuses such a reader where
    `spark.sql.python.filterPushdown.enabled` is false, which the data source can't see.
    """
    main_spec = getattr(sys.modules["__main__"], "__spec__", None)
    return FILTER_WORKER in sys.modules or (main_spec is not None and main_spec.name == FILTER_WORKER)
