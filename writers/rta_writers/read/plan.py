"""Reading back: where a session or a stream begins and ends, and what is missing. Knows nothing of Spark."""

import enum
import itertools
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

import msgspec
import redis
import redis.exceptions

from rta_wire import day_streams, errors, keys
from rta_wire.codec import burst, decode
from rta_wire.codec import layout as codec_layout
from rta_wire.stream import cold_index, cursor
from rta_writers.connection import retry
from rta_writers.options import parse as options_parse
from rta_writers.options.write import LAYOUT, PLACE, layouts
from rta_writers.read import stream as read_stream

log: Final = logging.getLogger("rta_writers")

ENTRIES_PER_PARTITION: Final = 2_048
PARTITIONS_MAX: Final = 256
ENTRIES_PER_TRIGGER_MAX: Final = 10_000_000
ENTRIES_PER_COUNT: Final = 256
NAMES_PER_CALL: Final = 1_000
START: Final = cursor.START
HIGHEST_ID: Final = f"{2**64 - 1}-{2**64 - 1}"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_ENTRY_ID: Final = re.compile(r"\d{1,20}-\d{1,20}")


class What(enum.StrEnum):
    """What is read."""

    SAMPLES = "samples"
    EVENTS = "events"
    ENTRIES = "entries"


def _offset(given: str) -> str:
    if given in (EARLIEST, LATEST) or _ENTRY_ID.fullmatch(given):
        return given
    raise ValueError("it is earliest, latest or the id of an entry, like 1700000000000-0")


NAMES: Final[dict[str, options_parse.Parse]] = {
    **PLACE,
    **LAYOUT,
    "form": options_parse.one_of(What),
    "failOnDataLoss": options_parse.boolean,
    "startingOffset": _offset,
    "partitions": options_parse.integer(1, PARTITIONS_MAX),
    "maxEntriesPerTrigger": options_parse.integer(1, ENTRIES_PER_TRIGGER_MAX),
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a read asked for: all of a stream, or one session in it."""

    redis_url: str
    session: str | None = None
    stream: str | None = None
    names: keys.Keys = keys.Keys()
    layouts: codec_layout.Plan = codec_layout.Plan()
    framing: burst.Framing = burst.Framing.RAW
    form: What = What.SAMPLES
    fail_on_data_loss: bool = True
    starting_offset: str = EARLIEST
    partitions: int | None = None
    max_entries_per_trigger: int | None = None

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Self:
        found = options_parse.read(given, NAMES)
        if "redisUrl" not in found:
            raise errors.Usage(reason="Format 'rta' needs the option 'redisUrl'")
        if "session" not in found and "stream" not in found:
            raise errors.Usage(reason="Format 'rta' reads a session or a stream: set option 'session' or 'stream'")
        if "session" in found:
            keys.check_identity(found["session"])
        if "stream" in found:
            keys.check_stream_name(found["stream"])
        names = {
            field: found[option]
            for field, option in {"prefix": "keyPrefix", "session_template": "sessionTemplate"}.items()
            if option in found
        }
        layout = [found.get(option, {}) for option in ("channels", "sampleType", "kind", "intervalNs")]
        simple = {
            "redis_url": "redisUrl",
            "session": "session",
            "stream": "stream",
            "framing": "framing",
            "form": "form",
            "fail_on_data_loss": "failOnDataLoss",
            "starting_offset": "startingOffset",
            "partitions": "partitions",
            "max_entries_per_trigger": "maxEntriesPerTrigger",
        }
        return cls(
            names=keys.Keys(**names),
            layouts=layouts(layout[0], layout[1], layout[2], layout[3]),
            **{field: found[option] for field, option in simple.items() if option in found},
        )


class Place(msgspec.Struct, frozen=True):
    """Where to read: a stream, from an entry on; of one session, or of all."""

    stream: str
    after: str = cursor.START
    stream_session_id: int | None = None


Counters = cold_index.Counters


class Range(msgspec.Struct, frozen=True):
    """Entries after one id up to another, as one task reads them. `removed` is what was gone when it was planned."""

    stream: str
    after: str
    until: str
    removed: int
    identities: dict[int, str]


def find(client: redis.Redis, options: Options) -> Place:
    """The place of a session by its hash, or a whole stream."""
    if options.session is None:
        assert options.stream is not None
        return Place(options.stream)
    fields = (keys.STREAM_NAME, keys.STREAM_SESSION_ID, keys.STREAM_POSITION)
    name, number, position = _ask(
        options, lambda: client.hmget(options.names.session(str(options.session)), list(fields))
    )
    if name is None or number is None:
        raise errors.UnknownSession(
            f"There is no session {options.session!r} in Redis: it was never there, or it has expired.",
            identity=options.session,
        )
    if options.stream is not None and not day_streams.is_of(name.decode(), options.stream):
        raise errors.Usage(
            reason=f"Session {options.session!r} is in stream {name.decode()!r}, not in {options.stream!r}"
        )
    return Place(name.decode(), (position or b"0-0").decode(), int(number))


def counters(client: redis.Redis, options: Options, stream: str) -> Counters:
    """A stream that does not exist is an empty one."""
    found: Counters = _ask(options, lambda: read_stream.counters(client, options.names, stream))
    return found


def identities(client: redis.Redis, options: Options, place: Place) -> dict[int, str]:
    """Names of sessions by their numbers, from the index of live ones: a stream holds numbers only."""
    if options.session is not None and place.stream_session_id is not None:
        return {place.stream_session_id: options.session}
    found: dict[int, str] = {}
    members = _ask(options, lambda: client.zrange(options.names.index(), 0, -1))
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


def nth_after(client: redis.Redis, options: Options, place: Place, count: int) -> str | None:
    """The id of the entry so many after the place; None where there are fewer. Redis gives no ids without data."""
    where = (place.stream, place.after, HIGHEST_ID)

    def look() -> str | None:
        found = read_stream.entries(client, options.names, where, ENTRIES_PER_COUNT)
        return next((entry_id for entry_id, _ in itertools.islice(found, count - 1, None)), None)

    position: str | None = _ask(options, look)
    return position


def is_after(one: str, other: str) -> bool:
    """Whether one entry came later than the other."""
    return cursor.parse_id(one) > cursor.parse_id(other)


def lost(client: redis.Redis, options: Options, place: Place, now: Counters, added: int | None = None) -> int | None:
    """How many entries after the place are gone: exactly where `added` counts those up to it, else 0 or None."""
    if cursor.parse_id(now.last_id) < cursor.parse_id(place.after):
        return None  # removed and made again
    if added is not None:
        return now.gone_after(added)
    first_id = now.first_after(place.after)
    is_in_cold = is_after(now.cold_id, place.after)
    if not now.removed or (first_id is not None and not is_after(first_id, place.after)):
        return now.hole if is_in_cold else 0
    if now.cold_added and not is_in_cold and not now.hole:
        return 0  # what is gone from the live stream is cold
    if place.after == cursor.START and place.stream_session_id is None:
        return now.removed
    return 0 if _starts_here(client, options, place) else None


def _starts_here(client: redis.Redis, options: Options, place: Place) -> bool:
    """Whether the first entry that is left is the one that opens the session: it holds its JSON and nothing else."""
    where = (place.stream, START, HIGHEST_ID)
    found = _ask(options, lambda: read_stream.read(client, options.names, where, 1)).entries
    if not found or found[0][1].get(keys.ENTRY_ID) != str(place.stream_session_id).encode():
        return False
    return bool(decode.burst(found[0][1][keys.ENTRY_DATA]).data[0].session_json)


def split(after: str, until: str, entries: int, wanted: int | None) -> list[tuple[str, str]]:
    """Ranges of ids of about equal length in time, which is all that ids tell without reading the entries."""
    first_ms, last_ms = cursor.parse_id(after)[0], cursor.parse_id(until)[0]
    parts = wanted or min(PARTITIONS_MAX, -(-entries // ENTRIES_PER_PARTITION))
    parts = max(1, min(parts, last_ms - first_ms))
    stops = [f"{first_ms + (last_ms - first_ms) * part // parts}-0" for part in range(1, parts)]
    return list(zip([after, *stops], [*stops, until], strict=True))


def ranges(place: Place, now: Counters, options: Options, names: Mapping[int, str], until: str) -> list[Range]:
    """What tasks read, from a place up to an entry."""
    if cursor.parse_id(until) <= cursor.parse_id(place.after):
        return []
    # Nothing is there before the first entry: dividing that time would leave tasks without work.
    start = place.after
    if now.first_id is not None and cursor.parse_id(now.first_id) > cursor.parse_id(start):
        start = _before(now.first_id)
    return [
        Range(place.stream, first, last, now.removed, dict(names))
        for first, last in split(start, until, now.length, options.partitions)
    ]


def _before(entry_id: str) -> str:
    ms, seq = cursor.parse_id(entry_id)
    return f"{ms}-{seq - 1}" if seq else f"{ms - 1}-{2**64 - 1}"


def report_gap(options: Options, stream: str, after: str, count: int | None) -> None:
    """An error, or a warning where the job said that it can live with it."""
    gap = errors.StreamGap(stream=stream, after=after, count=f", {count} of them" if count else "")
    if options.fail_on_data_loss:
        raise gap
    log.warning("%s", gap)


def _ask(options: Options, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except redis.exceptions.ResponseError as error:
        if "no such key" in str(error):
            raise
        raise retry.named(options.redis_url, error) from error
    except retry.Trouble as error:
        raise retry.named(options.redis_url, error) from error
