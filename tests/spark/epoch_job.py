"""Two queries over the same files, one that writes once and one by plain XADD, in a process that dies between epochs.

When both have committed the epoch that they were told, and before Spark has noted either, the whole process is killed.
Run by test_driver.py.
"""

import os
import signal
import sys
from collections.abc import Sequence

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import types as sql
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

import rta_writers
from rta_writers.connection import redis_client
from rta_writers.options.write import WriteOptions
from rta_writers.spark.source import RtaDataSource
from rta_writers.spark.writer import StreamWriter

DELIVERIES = ("exactly-once", "at-least-once")
URL, WORK, DOOMED_EPOCH, GROUP = sys.argv[1], sys.argv[2], int(sys.argv[3]), os.getpgrp()
BLOCK_S, PATIENCE_S = 3, 600


class DoomedWriter(StreamWriter):
    """Commits, waits for the commit of the other query, and kills the driver."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        super().commit(messages, batchId)
        if batchId == DOOMED_EPOCH:
            with redis_client.connect(URL) as client:
                key = f"test:committed:{batchId}"
                if client.rpush(key, self._options.delivery.value) < len(DELIVERIES):
                    client.expire(key, PATIENCE_S)
                    while True:
                        client.execute_command("BLPOP", "test:nothing", BLOCK_S)
                        os.killpg(GROUP, 0)  # the other one has killed it: nothing is left to wait for
            os.killpg(GROUP, signal.SIGKILL)


class DoomedSource(RtaDataSource):
    """The data source `rta` with a `DoomedWriter`."""

    def streamWriter(self, schema: sql.StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - Spark's name
        super().streamWriter(schema, overwrite)
        return DoomedWriter(WriteOptions.parse(self.options), None)


def main() -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark = (
        SparkSession.Builder()
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.daemon.module", "tests.chaos.spark_daemon")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", f"{WORK}/warehouse")
        .config("spark.local.dir", f"{WORK}/local")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(DoomedSource)
    sessions = [rta_writers.SessionClient(URL).session(name, stream=name) for name in DELIVERIES]
    source = spark.readStream.schema("channel int, time bigint, value double").option("maxFilesPerTrigger", 1)
    queries = [
        source.parquet(f"{WORK}/in")
        .writeStream.format("rta")
        .option("checkpointLocation", f"{WORK}/{session.identity}")
        .options(**session.options, delivery=session.identity)
        .trigger(availableNow=True)
        .start()
        for session in sessions
    ]
    for query in queries:
        query.awaitTermination()
    for session in sessions:
        session.close()
    spark.stop()


if __name__ == "__main__":
    main()
