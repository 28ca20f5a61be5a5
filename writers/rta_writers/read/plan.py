"""Plans a read: where it begins and ends in each stream, what of that is missing, and which entries each task reads.

Which streams are read is found by `lookup`. Does not import Spark.
"""

import itertools
import logging
from collections.abc import Mapping
from typing import Final

import msgspec
import redis

from rta_wire import entry_ids, errors, keys
from rta_wire.archive import selection
from rta_wire.archive.folder import Segment
from rta_wire.codec import decode
from rta_wire.stream.live_then_cold import StreamCounters
from rta_wire.stream.source_cursor import SourcePosition
from rta_writers.options.read import EARLIEST, LATEST, NO_ARCHIVE, PARTITIONS_MAX, ReadOptions
from rta_writers.read import archive_ranges, lookup
from rta_writers.read import stream as read_stream
from rta_writers.read.archive_files import ArchiveRange

log: Final = logging.getLogger("rta_writers")

ENTRIES_PER_PARTITION: Final = 2_048
ENTRIES_PER_COUNT: Final = 256


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


AnyRange = EntryRange | ArchiveRange
"""What one task reads: entries of a stream, or files of the archive."""


def plan_batch(client: redis.Redis, options: ReadOptions) -> list[EntryRange]:
    """The ranges of a read of all that Redis has now."""
    in_redis = msgspec.structs.replace(options, archive=NO_ARCHIVE)
    ranges = plan_read(client, in_redis, selection.SampleFilter())
    return [entry_range for entry_range in ranges if isinstance(entry_range, EntryRange)]


def plan_read(client: redis.Redis, options: ReadOptions, sample_filter: selection.SampleFilter) -> list[AnyRange]:
    """The ranges of a read of all that is there now, in the order of entries: of the streams of a source in theirs.

    `sample_filter`: files of the archive that hold nothing it wants are left out.
    """
    options = lookup.learn_names(client, options)
    source = lookup.find_source(client, options)
    counters = archive_ranges.read_source_counters(client, options, source)
    lookup.check_known(client, options, source, counters)
    if options.starting_offset == LATEST:
        return []
    start = SourcePosition(source.name, {})
    if options.starting_offset != EARLIEST:
        start = SourcePosition.after(source.name, options.starting_offset, counters)
    # A stream that is missing is no part of a source; the only stream is looked at whatever it has.
    counters = {stream: now for stream, now in counters.items() if now.added or len(counters) == 1}
    identities = lookup.read_identities(client, options, source, counters)
    ranges: list[AnyRange] = []
    for (stream, now), share in zip(counters.items(), _share_partitions(options, counters), strict=True):
        position = source.position(stream, start.position(stream).id)
        archived = archive_ranges.plan_archived(options, source, position, now.last_id, sample_filter)
        for one in archived.ranges:
            ranges += _plan_hole(client, share, (position, now), identities, one) if isinstance(one, Segment) else [one]
        if archived.is_all:
            continue
        position, added = archived.stream_position(position)
        missing = count_missing(client, options, position, now, added)
        if archived.lost_end:
            _report_lost_end(options, archived, now, missing)
        elif missing is None or (missing and options.session is not None):
            report_gap(options, stream, position.after, missing)
        ranges += plan_ranges(position, now, share, identities, now.last_id)
    return ranges


def _plan_hole(
    client: redis.Redis,
    options: ReadOptions,
    stream: tuple[lookup.ReadPosition, StreamCounters],
    identities: Mapping[int, str],
    hole: Segment,
) -> list[EntryRange]:
    """The ranges of entries that the archive should have and has not: from the stream, where it still has them."""
    log.warning("%s. Its entries are read from the stream", hole.problem.rstrip("."))
    position, counters = stream
    begin = msgspec.structs.replace(position, after=hole.after)
    if not counters.length or count_missing(client, options, begin, counters) != 0:
        _report(options, errors.ArchiveDamaged(hole.problem, identity=options.session or ""))
    return plan_ranges(begin, counters, options, identities, hole.until)


def _report_lost_end(
    options: ReadOptions, archived: archive_ranges.ArchivedShare, counters: StreamCounters, missing: int | None
) -> None:
    """Report parts at the end of a session that can't be read, unless the stream has what comes after the others."""
    log.warning("%s. Its entries are read from the stream", archived.lost_end.rstrip("."))
    if missing != 0 or counters.added <= (archived.added or 0):
        _report(options, errors.ArchiveDamaged(archived.lost_end, identity=options.session or ""))


def plan_step(
    client: redis.Redis,
    options: ReadOptions,
    source: lookup.ReadSource,
    steps: tuple[SourcePosition, SourcePosition],
    identities: Mapping[int, str],
) -> list[AnyRange]:
    """The ranges between two positions, and a report about entries that should be there and are gone."""
    start, end = steps
    removed_day = start.removed_newest(source.streams)
    if removed_day is not None:
        _report_removed_day(options, removed_day)
    counters = lookup.read_counters(client, options, start.changed_streams(end))
    ranges: list[AnyRange] = []
    for (stream, now), share in zip(counters.items(), _share_partitions(options, counters), strict=True):
        before, until = start.position(stream), end.position(stream).id
        position, added = source.position(stream, before.id), before.added
        archived = archive_ranges.plan_archived(options, source, position, until, selection.SampleFilter())
        for one in archived.ranges:
            ranges += _plan_hole(client, share, (position, now), identities, one) if isinstance(one, Segment) else [one]
        position, added = archived.stream_position(position, added)
        is_over = archived.is_all or not entry_ids.is_after(until, archived.until)
        missing = 0 if is_over else count_missing(client, options, position, now, added)
        if archived.lost_end:
            _report_lost_end(options, archived, now, missing)
        if is_over:
            continue
        if missing != 0 and not archived.lost_end:
            report_gap(options, stream, position.after, missing)
        ranges += plan_ranges(position, now, share, identities, until)
    return ranges


def nth_id_after(client: redis.Redis, options: ReadOptions, position: lookup.ReadPosition, count: int) -> str | None:
    """The id of the entry that is `count` entries after a position; None where there are fewer.

    Reads the entries up to there: Redis gives no ids without data.
    """
    where = (position.stream, position.after, entry_ids.MAX)

    def read_id() -> str | None:
        entries = read_stream.iter_entries(client, options.names, where, ENTRIES_PER_COUNT)
        return next((entry_id for entry_id, _ in itertools.islice(entries, count - 1, None)), None)

    last_id: str | None = lookup.call_redis(options, read_id)
    return last_id


def count_missing(
    client: redis.Redis,
    options: ReadOptions,
    position: lookup.ReadPosition,
    counters: StreamCounters,
    added: int | None = None,
) -> int | None:
    """How many entries after a position are gone, None where some are and their number is unknown.

    `added` is how many entries were ever added up to the position: with it the number is exact.
    """
    if entry_ids.is_after(position.after, counters.last_id):
        return None  # the stream was removed and made again
    if added is not None:
        return counters.missing_after(position.after, added)
    first_id = counters.first_after(position.after)
    is_in_cold = entry_ids.is_after(counters.cold_id, position.after)
    if not counters.removed or (first_id is not None and not entry_ids.is_after(first_id, position.after)):
        return counters.gap_entries if is_in_cold else 0
    if counters.cold_added and not is_in_cold and not counters.gap_entries:
        return 0  # what is gone from the live stream is cold
    if position.after == entry_ids.MIN and position.stream_session_id is None:
        return counters.removed
    return 0 if _begins_with_session(client, options, position) else None


def _begins_with_session(client: redis.Redis, options: ReadOptions, position: lookup.ReadPosition) -> bool:
    """Whether the first entry of the stream opens the session: it is the session's, and holds its JSON."""
    where = (position.stream, entry_ids.MIN, entry_ids.MAX)
    entries = lookup.call_redis(options, lambda: read_stream.read_entries(client, options.names, where, 1)).entries
    if not entries:
        return False
    _, fields = entries[0]
    if fields.get(keys.ENTRY_ID) != str(position.stream_session_id).encode():
        return False
    return bool(decode.burst(fields[keys.ENTRY_DATA]).data[0].session_json)


def _share_partitions(options: ReadOptions, counters: Mapping[str, StreamCounters]) -> list[ReadOptions]:
    """The options for each of several streams, with its share of the tasks by its length: one at least."""
    lengths = [now.length for now in counters.values()]
    total = sum(lengths)
    tasks = options.partitions or min(PARTITIONS_MAX, -(-total // ENTRIES_PER_PARTITION))
    return [
        msgspec.structs.replace(options, partitions=max(1, tasks * length // total if total else 1))
        for length in lengths
    ]


def plan_ranges(
    position: lookup.ReadPosition,
    counters: StreamCounters,
    options: ReadOptions,
    identities: Mapping[int, str],
    until: str,
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
    _report(options, errors.StreamGap(stream=stream, after=after, count=f", {count} of them" if count else ""))


def _report_removed_day(options: ReadOptions, stream: str) -> None:
    """Raise or log that the day at which the reader stood was removed, and perhaps later ones with it."""
    sentence = (
        f"Stream {stream!r} was removed since it was read last, and perhaps days that came after it. Set option "
        "'failOnDataLoss' to false to go on with the days that are there."
    )
    _report(options, errors.StreamGap(sentence, stream=stream))


def _report(options: ReadOptions, gap: errors.RtaError) -> None:
    if options.fail_on_data_loss:
        raise gap
    log.warning("%s", gap)
