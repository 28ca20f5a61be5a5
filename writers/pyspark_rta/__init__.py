"""Found by Spark itself: it registers the `DefaultSource` of every module whose name starts with `pyspark_`.

So `format("rta")` works where the package is installed. `rta_writers.register(spark)` adds what needs the driver: tuned
batches, filters that reach the reader, and counters.
"""

from rta_writers.spark.source import RtaDataSource as DefaultSource

__all__ = ["DefaultSource"]
