"""A streaming query in a process of its own, to be killed at any moment. Run by test_faults.py."""

import sys

from pyspark.sql import SparkSession

import rta_writers


def main() -> None:
    url, stream, work, delivery = sys.argv[1:]
    spark = (
        SparkSession.Builder()
        .master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.daemon.module", "tests.chaos.spark_daemon")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", f"{work}/warehouse")
        .config("spark.local.dir", f"{work}/local")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    rta_writers.register(spark)
    session = rta_writers.SessionClient(url).session("run-1", stream=stream)
    source = spark.readStream.schema("channel int, time bigint, value double").option("maxFilesPerTrigger", 1)
    query = (
        source.parquet(f"{work}/in")
        .writeStream.format("rta")
        .option("checkpointLocation", f"{work}/checkpoint")
        .options(**session.options, delivery=delivery)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    session.close()
    spark.stop()


if __name__ == "__main__":
    main()
