"""The data source works on every Spark that has Arrow writers, from 4.1 on: written, read back, both as streams too."""

from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import rta_writers
from rta_wire import errors
from rta_writers.connection import redis_client
from rta_writers.options.target import Target
from tests.compat.sessions import ROWS, START_NS, WRITTEN, any_spark, frame, open_session, written

__all__ = ["any_spark", "open_session"]

pytestmark = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 1), reason="this Spark has no Arrow writers"
)


def read_options(target: Target) -> dict[str, str]:
    """The session as a supervisor would show it."""
    with redis_client.connect(target.redis_url) as client:
        fields = {"streamName": "rig", "streamSessionId": "7", "streamPosition": "0-0"}
        client.hset("sessions:run-1", mapping=fields)
    return {"redisUrl": target.redis_url, "session": "run-1"}


def test_a_frame_is_written_and_read_back(any_spark: SparkSession, open_session: Target) -> None:
    """Long form with a timestamp, and a filter that the reader may take over."""
    rta_writers.register(any_spark)
    stamped = frame(any_spark).selectExpr("channel", "timestamp_micros(time div 1000) time", "value")
    stamped.write.format("rta").mode("append").options(**open_session.options()).save()
    assert written(open_session) == WRITTEN
    loaded = any_spark.read.format("rta").options(**read_options(open_session)).load()
    assert sorted(map(tuple, loaded.select("channel", "time", "value").collect())) == WRITTEN
    later_ns = START_NS + (ROWS - 10) * 1000
    assert loaded.where(f"time >= {later_ns}").count() == 10


def test_a_query_writes_and_a_query_reads(any_spark: SparkSession, open_session: Target, tmp_path: Path) -> None:
    """Exactly once through a checkpoint, and read as a stream into a table of files. A wrong option is refused."""
    rta_writers.register(any_spark)
    frame(any_spark).write.parquet(str(tmp_path / "in"))
    source = any_spark.readStream.schema("channel int, time bigint, value double").parquet(str(tmp_path / "in"))
    writing = source.writeStream.format("rta").options(**open_session.options())
    writing = writing.option("checkpointLocation", str(tmp_path / "write"))
    with pytest.raises(errors.Usage, match="no option 'sampletyp'"):
        writing.start(sampletyp="float")
    for _ in range(2):
        writing.trigger(availableNow=True).start().awaitTermination()
    assert written(open_session) == WRITTEN
    loading = any_spark.readStream.format("rta").options(**read_options(open_session)).load()
    reading = loading.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "read"))
    reading.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    rows = any_spark.read.parquet(str(tmp_path / "out")).select("channel", "time", "value").collect()
    assert sorted(map(tuple, rows)) == WRITTEN
