"""Reading back: where a session or a stream begins and ends, and what is missing. Knows nothing of Spark."""

import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import redis
import redis.exceptions

from rta_wire import day_streams, entry_ids, errors, keys
from rta_wire.codec import decode
from rta_wire.stream import live_then_cold
from rta_writers.connection import retry
from rta_writers.options import read as options_read
from rta_writers.read import stream as read_stream

log: Final = logging.getLogger("rta_writers")

ENTRIES_PER_PARTITION: Final = 2_048


ENTRIES_PER_COUNT: Final = 256
NAMES_PER_CALL: Final = 1_000


class ReadPosition(msgspec.Struct, frozen=True):
    """Where to read: a stream, from an entry on; of one session, or of all."""

    stream: str
    after: str = entry_ids.MIN
    stream_session_id: int | None = None


Counters = live_then_cold.StreamCounters


class EntryRange(msgspec.Struct, frozen=True):
    """Entries after one id up to another, as one task reads them. `removed` is what was gone when it was planned."""

    stream: str
    after: str
    until: str
    removed: int
    identities: dict[int, str]


def find_position(client: redis.Redis, options: options_read.ReadOptions) -> ReadPosition:
    """The place of a session by its hash, or a whole stream."""
    if options.session is None:
        assert options.stream is not None
        return ReadPosition(options.stream)
    fields = (keys.STREAM_NAME, keys.STREAM_SESSION_ID, keys.STREAM_POSITION)
    name, number, position = _ask(
        options, lambda: client.hmget(options.names.session(str(options.session)), list(fields))
    )
    if name is None or number is None:
        raise errors.UnknownSession(
            f"There is no session {options.session!r} in Redis: it was never there, or it has expired.",
            identity=options.session,
        )
    if options.stream is not None and not day_streams.is_stream_of(name.decode(), options.stream):
        raise errors.Usage(
            reason=f"Session {options.session!r} is in stream {name.decode()!r}, not in {options.stream!r}"
        )
    return ReadPosition(name.decode(), (position or b"0-0").decode(), int(number))


def counters(client: redis.Redis, options: options_read.ReadOptions, stream: str) -> Counters:
    """A stream that does not exist is an empty one."""
    found: Counters = _ask(options, lambda: read_stream.counters(client, options.names, stream))
    return found


def identities(client: redis.Redis, options: options_read.ReadOptions, place: ReadPosition) -> dict[int, str]:
    """Names of sessions by their numbers, from the index of live ones: a stream holds numbers only."""
    if options.session is not None and place.stream_session_id is not None:
        return {place.stream_session_id: options.session}
    found: dict[int, str] = {}
    members = _ask(options, lambda: client.zrange(options.names.session_index(), 0, -1))
    names = [raw.decode() for raw in members]
    for first in range(0, len(names), NAMES_PER_CALL):
        some = names[first : first + NAMES_PER_CALL]
        pipe = client.pipeline(transaction=False)
        for name in some:
            pipe.hmget(options.names.session(name), [keys.STREAM_NAME, keys.STREAM_SESSION_ID])
        for name, (stream, number) in zip(some, _ask(options, pipe.execute), strict=True):
            if number is not None and stream is not None and stream.decode() == place.stream:
                found[int(number)] = name
    return found


def nth_after(client: redis.Redis, options: options_read.ReadOptions, place: ReadPosition, count: int) -> str | None:
    """The id of the entry so many after the place; None where there are fewer. Redis gives no ids without data."""
    where = (place.stream, place.after, entry_ids.MAX)

    def look() -> str | None:
        found = read_stream.iter_entries(client, options.names, where, ENTRIES_PER_COUNT)
        return next((entry_id for entry_id, _ in itertools.islice(found, count - 1, None)), None)

    position: str | None = _ask(options, look)
    return position


def count_missing(
    client: redis.Redis, options: options_read.ReadOptions, place: ReadPosition, now: Counters, added: int | None = None
) -> int | None:
    """How many entries after the place are gone: exactly where `added` counts those up to it, else 0 or None."""
    if entry_ids.parse(now.last_id) < entry_ids.parse(place.after):
        return None  # removed and made again
    if added is not None:
        return now.removed_after(added)
    first_id = now.first_after(place.after)
    is_in_cold = entry_ids.is_after(now.cold_id, place.after)
    if not now.removed or (first_id is not None and not entry_ids.is_after(first_id, place.after)):
        return now.gap_entries if is_in_cold else 0
    if now.cold_added and not is_in_cold and not now.gap_entries:
        return 0  # what is gone from the live stream is cold
    if place.after == entry_ids.MIN and place.stream_session_id is None:
        return now.removed
    return 0 if _starts_here(client, options, place) else None


def _starts_here(client: redis.Redis, options: options_read.ReadOptions, place: ReadPosition) -> bool:
    """Whether the first entry that is left is the one that opens the session: it holds its JSON and nothing else."""
    where = (place.stream, entry_ids.MIN, entry_ids.MAX)
    found = _ask(options, lambda: read_stream.read_entries(client, options.names, where, 1)).entries
    if not found or found[0][1].get(keys.ENTRY_ID) != str(place.stream_session_id).encode():
        return False
    return bool(decode.burst(found[0][1][keys.ENTRY_DATA]).data[0].session_json)


def split(after: str, until: str, entries: int, wanted: int | None) -> list[tuple[str, str]]:
    """Ranges of ids of about equal length in time, which is all that ids tell without reading the entries."""
    first_ms, last_ms = entry_ids.parse(after)[0], entry_ids.parse(until)[0]
    parts = wanted or min(options_read.PARTITIONS_MAX, -(-entries // ENTRIES_PER_PARTITION))
    parts = max(1, min(parts, last_ms - first_ms))
    stops = [f"{first_ms + (last_ms - first_ms) * part // parts}-0" for part in range(1, parts)]
    return list(zip([after, *stops], [*stops, until], strict=True))


def ranges(
    place: ReadPosition, now: Counters, options: options_read.ReadOptions, names: Mapping[int, str], until: str
) -> list[EntryRange]:
    """What tasks read, from a place up to an entry."""
    if entry_ids.parse(until) <= entry_ids.parse(place.after):
        return []
    # Nothing is there before the first entry: dividing that time would leave tasks without work.
    start = place.after
    if now.first_id is not None and entry_ids.parse(now.first_id) > entry_ids.parse(start):
        start = entry_ids.previous_id(now.first_id)
    return [
        EntryRange(place.stream, first, last, now.removed, dict(names))
        for first, last in split(start, until, now.length, options.partitions)
    ]


def report_gap(options: options_read.ReadOptions, stream: str, after: str, count: int | None) -> None:
    """An error, or a warning where the job said that it can live with it."""
    gap = errors.StreamGap(stream=stream, after=after, count=f", {count} of them" if count else "")
    if options.fail_on_data_loss:
        raise gap
    log.warning("%s", gap)


def _ask(options: options_read.ReadOptions, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except redis.exceptions.ResponseError as error:
        if "no such key" in str(error):
            raise
        raise retry.to_rta_error(options.redis_url, error) from error
    except retry.REDIS_ERRORS as error:
        raise retry.to_rta_error(options.redis_url, error) from error
