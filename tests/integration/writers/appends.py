"""Rows appended in groups, and what the stream holds of them."""

from collections.abc import Callable

import redis

from rta_wire.control.totals import Totals
from rta_writers.write.delivery.at_least_once import AtLeastOnceAppender
from rta_writers.write.delivery.exactly_once import ExactlyOnceAppender
from tests.support import samples

Make = Callable[..., ExactlyOnceAppender]


def put(appender: ExactlyOnceAppender, *counts: int, first: int = 0) -> Totals:
    """Append a group of rows per count, with one row per burst, and give the totals."""
    for count in counts:
        append_rows(appender, count, first)
        first += count
    totals = appender.totals()
    appender.close()
    return totals


def append_rows(appender: ExactlyOnceAppender | AtLeastOnceAppender, count: int, first: int) -> None:
    appender.append(count, lambda skip: samples.bursts(count - skip, first=first + skip))


def values(client: redis.Redis) -> list[float]:
    return [value for _, _, value in samples.rows(client, "rig")]
