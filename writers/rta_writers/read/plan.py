"""Plans a read: where a session or a stream begins and ends, what of it is missing, and which entries each task reads.

Does not import Spark.
"""

import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import redis

from rta_wire import day_streams, entry_ids, errors, keys
from rta_wire.codec import decode
from rta_wire.stream.live_then_cold import StreamCounters
from rta_writers.connection import retry
from rta_writers.options.read import PARTITIONS_MAX, ReadOptions
from rta_writers.read import stream as read_stream

log: Final = logging.getLogger("rta_writers")

ENTRIES_PER_PARTITION: Final = 2_048
ENTRIES_PER_COUNT: Final = 256
SESSIONS_PER_CALL: Final = 1_000


class ReadPosition(msgspec.Struct, frozen=True):
    """Where a read begins: after an entry of a stream, for one session or for all."""

    stream: str
    after: str = entry_ids.MIN
    stream_session_id: int | None = None


class EntryRange(msgspec.Struct, frozen=True):
    """Entries after one id up to another, as one task reads them.

    `removed` is how many entries of the stream were gone when the read was planned; `identities` are the names of
    sessions by their numbers.
    """

    stream: str
    after: str
    until: str
    removed: int
    identities: dict[int, str]


def find_position(client: redis.Redis, options: ReadOptions) -> ReadPosition:
    """Where the session of the options begins, by its hash, or the start of their stream."""
    if options.session is None:
        assert options.stream is not None
        return ReadPosition(options.stream)
    session_key = options.names.session(options.session)
    fields = [keys.STREAM_NAME, keys.STREAM_SESSION_ID, keys.STREAM_POSITION]
    stream, number, after = _call(options, lambda: client.hmget(session_key, fields))
    if stream is None or number is None:
        raise errors.UnknownSession(
            f"There is no session {options.session!r} in Redis: it was never there, or it has expired.",
            identity=options.session,
        )
    if options.stream is not None and not day_streams.is_stream_of(stream.decode(), options.stream):
        raise errors.Usage(
            reason=f"Session {options.session!r} is in stream {stream.decode()!r}, not in {options.stream!r}"
        )
    return ReadPosition(stream.decode(), after.decode() if after else entry_ids.MIN, int(number))


def read_counters(client: redis.Redis, options: ReadOptions, stream: str) -> StreamCounters:
    """Counters of a stream. One that does not exist is an empty one."""
    counters: StreamCounters = _call(options, lambda: read_stream.counters(client, options.names, stream))
    return counters


def read_identities(client: redis.Redis, options: ReadOptions, position: ReadPosition) -> dict[int, str]:
    """Names of the sessions of a stream by their numbers, from the index: entries have the numbers only."""
    if options.session is not None and position.stream_session_id is not None:
        return {position.stream_session_id: options.session}
    identities: dict[int, str] = {}
    members = _call(options, lambda: client.zrange(options.names.session_index(), 0, -1))
    indexed = [member.decode() for member in members]
    for first in range(0, len(indexed), SESSIONS_PER_CALL):
        page = indexed[first : first + SESSIONS_PER_CALL]
        pipe = client.pipeline(transaction=False)
        for identity in page:
            pipe.hmget(options.names.session(identity), [keys.STREAM_NAME, keys.STREAM_SESSION_ID])
        for identity, (stream, number) in zip(page, _call(options, pipe.execute), strict=True):
            if number is not None and stream is not None and stream.decode() == position.stream:
                identities[int(number)] = identity
    return identities


def nth_id_after(client: redis.Redis, options: ReadOptions, position: ReadPosition, count: int) -> str | None:
    """The id of the entry that is `count` entries after a position; None where there are fewer.

    Reads the entries up to there: Redis gives no ids without data.
    """
    where = (position.stream, position.after, entry_ids.MAX)

    def read_id() -> str | None:
        entries = read_stream.iter_entries(client, options.names, where, ENTRIES_PER_COUNT)
        return next((entry_id for entry_id, _ in itertools.islice(entries, count - 1, None)), None)

    last_id: str | None = _call(options, read_id)
    return last_id


def count_missing(
    client: redis.Redis,
    options: ReadOptions,
    position: ReadPosition,
    counters: StreamCounters,
    added: int | None = None,
) -> int | None:
    """How many entries after a position are gone, None where some are and their number is unknown.

    `added` is how many entries were ever added up to the position: with it the number is exact.
    """
    if entry_ids.is_after(position.after, counters.last_id):
        return None  # the stream was removed and made again
    if added is not None:
        return counters.removed_after(added)
    first_id = counters.first_after(position.after)
    is_in_cold = entry_ids.is_after(counters.cold_id, position.after)
    if not counters.removed or (first_id is not None and not entry_ids.is_after(first_id, position.after)):
        return counters.gap_entries if is_in_cold else 0
    if counters.cold_added and not is_in_cold and not counters.gap_entries:
        return 0  # what is gone from the live stream is cold
    if position.after == entry_ids.MIN and position.stream_session_id is None:
        return counters.removed
    return 0 if _begins_with_session(client, options, position) else None


def _begins_with_session(client: redis.Redis, options: ReadOptions, position: ReadPosition) -> bool:
    """Whether the first entry of the stream opens the session: it is the session's, and holds its JSON."""
    where = (position.stream, entry_ids.MIN, entry_ids.MAX)
    entries = _call(options, lambda: read_stream.read_entries(client, options.names, where, 1)).entries
    if not entries:
        return False
    _, fields = entries[0]
    if fields.get(keys.ENTRY_ID) != str(position.stream_session_id).encode():
        return False
    return bool(decode.burst(fields[keys.ENTRY_DATA]).data[0].session_json)


def plan_ranges(
    position: ReadPosition, counters: StreamCounters, options: ReadOptions, identities: Mapping[int, str], until: str
) -> list[EntryRange]:
    """The ranges that tasks read, from a position up to an entry."""
    if not entry_ids.is_after(until, position.after):
        return []
    # There is nothing before the first entry: dividing that time would leave tasks without work.
    after = position.after
    if counters.first_id is not None and entry_ids.is_after(counters.first_id, after):
        after = entry_ids.previous_id(counters.first_id)
    return [
        EntryRange(position.stream, range_after, range_until, counters.removed, dict(identities))
        for range_after, range_until in _split(after, until, counters.length, options.partitions)
    ]


def _split(after: str, until: str, entries: int, partitions: int | None) -> list[tuple[str, str]]:
    """Ranges of ids of about equal length in time, which is all that ids tell without reading the entries."""
    first_ms, last_ms = entry_ids.ms_of(after), entry_ids.ms_of(until)
    count = partitions or min(PARTITIONS_MAX, -(-entries // ENTRIES_PER_PARTITION))
    count = max(1, min(count, last_ms - first_ms))
    bounds = [entry_ids.format_id(first_ms + (last_ms - first_ms) * index // count) for index in range(1, count)]
    return list(zip([after, *bounds], [*bounds, until], strict=True))


def report_gap(options: ReadOptions, stream: str, after: str, count: int | None) -> None:
    """Raise the error for entries that are gone, or log it where the options say that the job goes on."""
    gap = errors.StreamGap(stream=stream, after=after, count=f", {count} of them" if count else "")
    if options.fail_on_data_loss:
        raise gap
    log.warning("%s", gap)


def _call(options: ReadOptions, call: Callable[[], Any]) -> Any:
    """The result of a call that reads from Redis. Errors of Redis become ours."""
    try:
        return call()
    except retry.REDIS_ERRORS as error:
        raise retry.to_rta_error(options.redis_url, error) from error
