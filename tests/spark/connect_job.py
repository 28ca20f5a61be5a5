"""A client of Spark Connect. Run by test_connect.py."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import rta_writers
from rta_wire import errors

ROWS = 1000
SCHEMA = "channel int, time bigint, value double"


def main() -> None:
    server, url, work = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    logging.basicConfig(level=logging.INFO)
    spark = SparkSession.Builder().remote(server).getOrCreate()
    rta_writers.ship(spark)
    rta_writers.ship(spark)
    metrics = rta_writers.register(spark)
    report: dict[str, Any] = {"metrics": [metrics.as_dict(), str(metrics)], "tuned": rta_writers.tune(spark)}
    frame = spark.range(0, ROWS, 1, 2).selectExpr("cast(id % 7 as int) channel", "id * 1000 time", "id / 4D value")
    with rta_writers.SessionClient(url).session("run-1", stream="rig") as session:
        rta_writers.check(frame, **session.options)
        frame.write.format("rta").mode("append").options(**session.options).save()
        # Known by now: to register it again would make the server warn.
        rta_writers.register(spark)
        stream(spark, work, session.options)
        report["refusal"] = refusal(spark, session.options)
        loaded = spark.read.format("rta").options(redisUrl=url, session="run-1").load().where("channel = 3")
        report["rows"] = sorted((row.time, row.value) for row in loaded.collect())
    report["path"] = [entry for entry in sys.path if entry.endswith("rta_writers.zip")]
    spark.stop()
    sys.stdout.write(json.dumps(report) + "\n")


def stream(spark: SparkSession, work: Path, options: dict[str, str]) -> None:
    """A query that writes one file, and is stopped."""
    source = spark.readStream.schema(SCHEMA).parquet(str(work / "in"))
    writing = source.writeStream.format("rta").option("checkpointLocation", str(work / "checkpoint"))
    query = writing.options(**options).start()
    query.processAllAvailable()
    query.stop()


def refusal(spark: SparkSession, options: dict[str, str]) -> str:
    """What `start()` says about an option that there is not."""
    stream = spark.readStream.format("rate").load().selectExpr("cast(value as int) channel", "value time", "1D value")
    try:
        stream.writeStream.format("rta").options(**options).start(sampletyp="float")
    except errors.Usage as error:
        return str(error)
    return "nothing"


if __name__ == "__main__":
    main()
