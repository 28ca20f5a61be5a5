"""Reads a stream whose older part may be cold, as one stream of which each entry comes once. Knows nothing of Spark.

Which part holds the next entries is decided by `rta_wire.stream.live_then_cold`; this module reads from Redis.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import redis
import redis.exceptions

from rta_wire import keys, redis_errors
from rta_wire.cold import batch as cold_batch
from rta_wire.stream import cold_index, cursor, live_then_cold
from rta_writers.connection import redis_client

XrangeEntry = tuple[str, dict[bytes, bytes]]
"""An entry: its id and its fields."""


class ReadResult(NamedTuple):
    """Entries after an id, and the counters of the stream at that moment."""

    entries: list[XrangeEntry]
    counters: live_then_cold.StreamCounters
    is_last: bool
    """Whether there are no more entries up to the last id that was asked for."""


def counters(client: redis.Redis, names: keys.Keys, streams: Sequence[str]) -> dict[str, live_then_cold.StreamCounters]:
    """Counters of streams. One that does not exist is an empty one. The live parts are read before the index."""
    if not streams:
        return {}
    live = [_parse_live_counters(reply) for reply in _read_infos(client, streams)]
    raw_extents: Any = client.hmget(names.cold_index(), list(streams))
    return {
        stream: live_then_cold.combine_counters(page, cold_index.parse(raw))
        for stream, page, raw in zip(streams, live, raw_extents, strict=True)
    }


def read_entries(client: redis.Redis, names: keys.Keys, where: tuple[str, str, str], count: int) -> ReadResult:
    """The next entries of a stream: at most `count` live ones, or those of one batch.

    `where` is the name of the stream, and the ids after and up to which entries are wanted. The result is empty only
    where there are no more.
    """
    stream, after, until = where
    live_entries, live = _read_live(client, stream, after, until, count)
    read = live_then_cold.ForwardRead(after, until)
    while (id_range := read.take_index(_read_cold_extent(client, names, stream))) is not None:
        read.take_batch(_read_cold_batch(client, stream, *id_range))
    combined = live_then_cold.combine_counters(live, read.extent)
    if read.batch is None:
        return ReadResult(live_entries, combined, is_last=len(live_entries) < count)
    entries = cold_batch.unpack_entries(read.batch[1], *read.entry_range)
    return ReadResult([(entry.id, entry.by_name()) for entry in entries], combined, is_last=read.is_last_batch)


def iter_entries(
    client: redis.Redis, names: keys.Keys, where: tuple[str, str, str], count: int
) -> Iterator[XrangeEntry]:
    """All entries of a stream between two ids, read as `read_entries` does."""
    stream, after, until = where
    while True:
        result = read_entries(client, names, (stream, after, until), count)
        yield from result.entries
        if result.is_last:
            return
        after = result.entries[-1][0]


def _read_cold_extent(client: redis.Redis, names: keys.Keys, stream: str) -> cold_index.ColdExtent | None:
    raw: Any = client.hget(names.cold_index(), stream)
    return cold_index.parse(raw)


def _read_cold_batch(client: redis.Redis, stream: str, after: str, until: str) -> live_then_cold.Batch | None:
    """The first batch of the cold stream after an id. An entry that is no batch counts as one that can't be read."""
    reply: Any = client.xrange(keys.cold_stream(stream), min=f"({after}", max=until, count=1)
    for raw_id, fields in reply:
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
    entries, info = pipe.execute(raise_on_error=False)
    if isinstance(entries, redis.exceptions.ResponseError):
        raise entries
    return [(raw_id.decode(), fields) for raw_id, fields in entries], _parse_live_counters(info)


def _read_infos(client: redis.Redis, streams: Sequence[str]) -> list[Any]:
    """The replies to XINFO STREAM, or the errors that came instead: in one round trip where one server has them all."""
    if len({id(redis_client.client_for_key(client, keys.stream(stream))) for stream in streams}) > 1:
        return [reply for stream in streams for reply in _read_infos(client, [stream])]
    pipe = redis_client.client_for_key(client, keys.stream(streams[0])).pipeline(transaction=False)
    for stream in streams:
        pipe.xinfo_stream(keys.stream(stream))
    infos: list[Any] = pipe.execute(raise_on_error=False)
    return infos


def _parse_live_counters(info: Any) -> cursor.StreamPage | None:
    """Counters in a reply to XINFO STREAM; None where there is no such stream."""
    if isinstance(info, redis.exceptions.ResponseError):
        if not redis_errors.is_no_such_key(info):
            raise info
        return None
    return cursor.parse_page(info, (), asked=0)
