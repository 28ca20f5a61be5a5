"""Channels of a configuration against options by hand, and a read in wide form against the long one."""

import functools
import json
from collections.abc import Iterator
from typing import Any

import redis

import rta_writers
from bench import parts, spark
from bench.measure import Case
from rta_wire import keys
from rta_wire.channels import model
from rta_writers.options.target import Target

TTL_S = 3600


@functools.cache
def channels() -> rta_writers.Channels:
    """The channels that the frames have, with names, units and ranges."""
    return rta_writers.Channels(
        model.build(
            model.Channel(id=number, name=f"c{number}", unit="V", min=0, max=1e9) for number in range(spark.CHANNELS)
        )
    )


def configured(target: Target) -> dict[str, str]:
    """The options of a session that is bound to these channels, as a supervisor leaves it in Redis."""
    client, names = redis.Redis.from_url(parts.redis_url()), keys.Keys()
    identifier = channels().identifier
    document = {"identity": target.identity, "configBindings": [{"identifier": identifier, "channelOffset": 0}]}
    session: dict[Any, Any] = {
        keys.STREAM_NAME: target.stream,
        keys.STREAM_SESSION_ID: target.stream_session_id,
        keys.STREAM_POSITION: "0-0",
        keys.JSON: json.dumps(document),
    }
    client.hset(names.session(target.identity), mapping=session)
    client.expire(names.session(target.identity), TTL_S)
    client.set(names.config(identifier), channels().data, ex=TTL_S)
    return {**target.options(), "config": identifier}


def long_by_configuration(rows: int) -> float:
    frame, options = spark.long_frame(rows), configured(parts.fresh_session())
    return spark.per_second(rows, lambda: spark.save(frame, "rta", options))


def wide_by_configuration(samples: int) -> float:
    frame, options = spark.wide_frame(samples, spark.CHANNELS), configured(parts.fresh_session())
    rta_writers.tune(parts.spark(), columns=spark.CHANNELS + 1)
    try:
        return spark.per_second(samples, lambda: spark.save(frame, "rta", options))
    finally:
        rta_writers.tune(parts.spark())


def read_session(samples: int, **options: str) -> float:
    """Samples a second of a read of one session into a sink that does nothing."""
    target = parts.fresh_session()
    spark.save(spark.wide_frame(samples, spark.CHANNELS), "rta", configured(target))
    where = {"redisUrl": target.redis_url, "session": target.identity, "partitions": "2", **options}
    frame = parts.spark().read.format("rta").options(**where).load()
    return spark.per_second(samples, lambda: spark.save(frame, "noop"))


def bench_channels(quick: bool) -> Iterator[Case]:
    rows = spark.QUICK_ROWS if quick else spark.ROWS
    few = spark.QUICK_ROWS if quick else spark.FEW_ROWS
    yield Case(
        "long form by a configuration of 100 channels, against options by hand",
        "rows/s",
        functools.partial(long_by_configuration, rows),
        functools.partial(spark.to_redis, rows),
        0.97,
        times=3,
    )
    yield Case(
        "wide form by a configuration of 100 channels, against options by hand",
        "samples/s",
        functools.partial(wide_by_configuration, rows),
        functools.partial(spark.wide_to_redis, rows),
        0.97,
        times=3,
    )
    yield Case(
        "read in wide form, 100 channels, against the long form with names",
        "samples/s",
        functools.partial(read_session, few, form="wide"),
        functools.partial(read_session, few),
        1,
    )
