"""The example of writers.md that reads Kafka, as it stands there, on a stand-in with the columns of Kafka's source."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

import rta_writers
from tests.support import doc_pages, samples

KAFKA_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
RECORDS = 12


class KafkaRecords(SimpleDataSourceStreamReader):
    """Records of two topics with two partitions each, all at once."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"offset": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
        return self.readBetweenOffsets(start, {"offset": RECORDS}), {"offset": RECORDS}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[Any, ...]]:  # noqa: N802
        return iter([record(number) for number in range(start["offset"], end["offset"])])


class KafkaStandIn(DataSource):
    """Stands in for Kafka's source, whose name Spark keeps for the connector."""

    @classmethod
    def name(cls) -> str:
        return "kafka_stand_in"

    def schema(self) -> str:
        return KAFKA_SCHEMA

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802 - Spark's names
        assert self.options["subscribe"] == "rig-4,rig-5"
        return KafkaRecords()


def record(number: int) -> tuple[Any, ...]:
    """A record, of the session that its key names."""
    topic, partition = f"rig-{4 + number % 2}", number // 2 % 2
    session = f"run-{topic}-{partition}"
    reading = {"session": session, "channel": 1, "time": samples.START_NS + number, "value": number / 4}
    return (session.encode(), json.dumps(reading).encode(), topic, partition, number, None, 0)


def test_the_example_writes_a_stream_for_each_partition_of_a_topic(
    spark: SparkSession, client: redis.Redis, sessions: rta_writers.SessionClient, tmp_path: Path
) -> None:
    """All but the format, the place of the checkpoint and that the query ends is what the page has."""
    [example] = [block for block in doc_pages.runnable("docs/writers.md") if 'format("kafka")' in block.text]
    changes = {
        'format("kafka")': f'format("{KafkaStandIn.name()}")',
        "/var/lib/rig/checkpoint": str(tmp_path),
        ".start()": ".trigger(availableNow=True).start()",
    }
    text = example.text
    for shown, run in changes.items():
        assert text.count(shown) == 1
        text = text.replace(shown, run)
    spark.dataSource.register(KafkaStandIn)
    exec(compile(text, example.place, "exec"), {"spark": spark, "client": sessions, "rta_writers": rta_writers})  # noqa: S102 - our own page
    for topic in (4, 5):
        for partition in range(2):
            numbers = [n for n in range(RECORDS) if (4 + n % 2, n // 2 % 2) == (topic, partition)]
            expected = [(1, samples.START_NS + n, n / 4) for n in numbers]
            assert sorted(samples.rows(client, f"rig-{topic}-{partition}")) == expected
