"""Times on their way through Spark: what it can carry arrives to the nanosecond."""

import pytest
import redis
from pyspark.errors import PySparkValueError
from pyspark.sql import SparkSession
from pyspark.sql.types import _parse_datatype_json_string

import rta_writers
from tests.support import samples, stream_content


def test_times_of_every_kind_keep_their_nanoseconds(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """Bigint carries every nanosecond, a timestamp its microseconds, whatever the zone of the session."""
    start_ns = samples.START_NS
    frame = spark.sql(f"select 1 channel, {start_ns + 1}L time, 0.25BD value")
    stamp = spark.sql(f"select 2 channel, timestamp_micros({start_ns // 1000 + 1}) time, 7 value")
    with sessions.session("run-1", stream="rig") as session:
        for rows in (frame, stamp):
            rows.write.format("rta").mode("append").options(**session.options).save()
    assert stream_content.samples(client, "rig", session.target.stream_session_id) == [
        (1, start_ns + 1, 0.25),
        (2, start_ns + 1000, 7.0),
    ]


@pytest.mark.parametrize("name", ["timestamp_ntz(9)", "timestamp_ltz(9)"])
def test_timestamps_of_nanoseconds_are_beyond_pyspark(name: str) -> None:
    """It can't read their schema, so no data source in Python is given them. When this fails, we can take them."""
    column = f'{{"name": "time", "type": "{name}", "nullable": true, "metadata": {{}}}}'
    with pytest.raises(PySparkValueError, match="CANNOT_PARSE_DATATYPE"):
        _parse_datatype_json_string(f'{{"type": "struct", "fields": [{column}]}}')
