"""Registers the data source with Spark, which imports the `DefaultSource` of every module named `pyspark_...`.

So `format("rta")` works where the package is installed. `rta_writers.register(spark)` adds what needs the driver: tuned
batches, filters that reach the reader, and counters.
"""

from rta_writers.spark.source import RtaDataSource as DefaultSource

__all__ = ["DefaultSource"]
