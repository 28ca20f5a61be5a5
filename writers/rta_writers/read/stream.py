"""A stream as readers see it: what is cold, then what is live, each entry once. Knows nothing of Spark.

Where a stream is compacted while it is read, what was live a moment ago is found cold: the live stream is asked first,
and the index after that.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import redis
import redis.exceptions

from rta_wire import entry_ids, keys
from rta_wire.cold import batch as cold_batch
from rta_wire.stream import cold_index, cursor, live_then_cold
from rta_writers.connection import redis_client

XrangeEntry = tuple[str, dict[bytes, bytes]]
"""An entry: its id and its fields."""


class ReadResult(NamedTuple):
    """Entries after a place, and the stream at that moment."""

    entries: list[XrangeEntry]
    counters: live_then_cold.StreamCounters
    is_last: bool
    """Whether there is nothing more up to where it was asked for."""


def counters(client: redis.Redis, names: keys.Keys, stream: str) -> live_then_cold.StreamCounters:
    """A stream that does not exist is an empty one."""
    live = _live(client, stream)
    return live_then_cold.combine_counters(live, _read_cold_extent(client, names, stream))


def read_entries(client: redis.Redis, names: keys.Keys, where: tuple[str, str, str], count: int) -> ReadResult:
    """`where`: a stream, and the ids after and up to which entries are wanted. So many live ones, or those of a batch:
    none only where there are no more."""
    stream, after, until = where
    raw, live = _read_live(client, stream, after, until, count)
    cold_part = _read_cold_extent(client, names, stream)
    while cold_part is not None and cold_part.is_ahead_of(after) and entry_ids.parse(after) < entry_ids.parse(until):
        batch = _read_cold_batch(client, stream, after, cold_part.last_id)
        # Looked at again: old batches may go at any moment, and the index is told before they do.
        again = _read_cold_extent(client, names, stream)
        if again != cold_part:
            cold_part = again
            continue
        if batch is None:
            break
        last_id, data = batch
        highest = min(cold_part.last_id, until, key=entry_ids.parse)
        found = cold_batch.unpack_entries(data, after, highest)
        is_last = entry_ids.parse(last_id) >= entry_ids.parse(until)
        return ReadResult(
            [(one.id, _fields(one.fields)) for one in found], live_then_cold.combine_counters(live, cold_part), is_last
        )
    return ReadResult(raw, live_then_cold.combine_counters(live, cold_part), len(raw) < count)


def iter_entries(
    client: redis.Redis, names: keys.Keys, where: tuple[str, str, str], count: int
) -> Iterator[XrangeEntry]:
    """The same, one by one, until there is nothing more."""
    stream, after, until = where
    while True:
        found = read_entries(client, names, (stream, after, until), count)
        yield from found.entries
        if found.is_last:
            return
        after = found.entries[-1][0]


def _read_cold_extent(client: redis.Redis, names: keys.Keys, stream: str) -> cold_index.ColdExtent | None:
    raw: Any = client.hget(names.cold_index(), stream)
    return cold_index.parse(raw)


def _read_cold_batch(client: redis.Redis, stream: str, after: str, until: str) -> tuple[str, bytes] | None:
    found: Any = client.xrange(keys.cold_stream(stream), min=f"({after}", max=until, count=1)
    for raw_id, fields in found:
        return raw_id.decode(), fields.get(keys.COLD_FIELD, b"")
    return None


def _read_live(
    client: redis.Redis, stream: str, after: str, until: str, count: int
) -> tuple[list[XrangeEntry], cursor.StreamPage | None]:
    """Live entries and counters from one moment."""
    key = keys.stream(stream)
    pipe = redis_client.client_for_key(client, key).pipeline(transaction=True)
    pipe.xrange(key, min=f"({after}", max=until, count=count)
    pipe.xinfo_stream(key)
    raw, info = pipe.execute(raise_on_error=False)
    if isinstance(raw, redis.exceptions.ResponseError):
        raise raw
    if isinstance(info, redis.exceptions.ResponseError):
        if "no such key" not in str(info):
            raise info
        return [], None
    return [(entry_id.decode(), fields) for entry_id, fields in raw], cursor.parse_page(info, (), asked=0)


def _live(client: redis.Redis, stream: str) -> cursor.StreamPage | None:
    try:
        info: Any = client.xinfo_stream(keys.stream(stream))
    except redis.exceptions.ResponseError as error:
        if "no such key" in str(error):
            return None
        raise
    return cursor.parse_page(info, (), asked=0)


def _fields(flat: tuple[bytes, ...]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
