"""A stream as readers see it: what is cold, then what is live, each entry once. Knows nothing of Spark.

Where a stream is compacted while it is read, what was live a moment ago is found cold: the live stream is asked first,
and the index after that.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import redis
import redis.exceptions

from rta_wire import keys
from rta_wire.cold import batch as cold_batch
from rta_wire.stream import cold_index, cursor
from rta_writers.connection import redis_client

Raw = tuple[str, dict[bytes, bytes]]
"""An entry: its id and its fields."""


class Found(NamedTuple):
    """Entries after a place, and the stream at that moment."""

    entries: list[Raw]
    now: cold_index.Counters
    is_last: bool
    """Whether there is nothing more up to where it was asked for."""


def counters(client: redis.Redis, names: keys.Keys, stream: str) -> cold_index.Counters:
    """A stream that does not exist is an empty one."""
    live = _live(client, stream)
    return cold_index.counters(live, _held(client, names, stream))


def read(client: redis.Redis, names: keys.Keys, where: tuple[str, str, str], count: int) -> Found:
    """`where`: a stream, and the ids after and up to which entries are wanted. So many live ones, or those of a batch:
    none only where there are no more."""
    stream, after, until = where
    raw, live = _together(client, stream, after, until, count)
    cold_part = _held(client, names, stream)
    while cold_part is not None and cold_part.is_past(after) and cursor.parse_id(after) < cursor.parse_id(until):
        batch = _batch(client, stream, after, cold_part.last_id)
        # Looked at again: old batches may go at any moment, and the index is told before they do.
        again = _held(client, names, stream)
        if again != cold_part:
            cold_part = again
            continue
        if batch is None:
            break
        last_id, data = batch
        highest = min(cold_part.last_id, until, key=cursor.parse_id)
        found = cold_batch.entries(data, after, highest)
        is_last = cursor.parse_id(last_id) >= cursor.parse_id(until)
        return Found([(one.id, _fields(one.fields)) for one in found], cold_index.counters(live, cold_part), is_last)
    return Found(raw, cold_index.counters(live, cold_part), len(raw) < count)


def entries(client: redis.Redis, names: keys.Keys, where: tuple[str, str, str], count: int) -> Iterator[Raw]:
    """The same, one by one, until there is nothing more."""
    stream, after, until = where
    while True:
        found = read(client, names, (stream, after, until), count)
        yield from found.entries
        if found.is_last:
            return
        after = found.entries[-1][0]


def _held(client: redis.Redis, names: keys.Keys, stream: str) -> cold_index.Held | None:
    raw: Any = client.hget(names.cold_index(), stream)
    return cold_index.parse(raw)


def _batch(client: redis.Redis, stream: str, after: str, until: str) -> tuple[str, bytes] | None:
    found: Any = client.xrange(keys.cold(stream), min=f"({after}", max=until, count=1)
    for raw_id, fields in found:
        return raw_id.decode(), fields.get(keys.COLD_FIELD, b"")
    return None


def _together(
    client: redis.Redis, stream: str, after: str, until: str, count: int
) -> tuple[list[Raw], cursor.Part | None]:
    """Live entries and counters from one moment."""
    key = keys.stream(stream)
    pipe = redis_client.server(client, key).pipeline(transaction=True)
    pipe.xrange(key, min=f"({after}", max=until, count=count)
    pipe.xinfo_stream(key)
    raw, info = pipe.execute(raise_on_error=False)
    if isinstance(raw, redis.exceptions.ResponseError):
        raise raw
    if isinstance(info, redis.exceptions.ResponseError):
        if "no such key" not in str(info):
            raise info
        return [], None
    return [(entry_id.decode(), fields) for entry_id, fields in raw], cursor.part(info, (), asked=0)


def _live(client: redis.Redis, stream: str) -> cursor.Part | None:
    try:
        info: Any = client.xinfo_stream(keys.stream(stream))
    except redis.exceptions.ResponseError as error:
        if "no such key" in str(error):
            return None
        raise
    return cursor.part(info, (), asked=0)


def _fields(flat: tuple[bytes, ...]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
