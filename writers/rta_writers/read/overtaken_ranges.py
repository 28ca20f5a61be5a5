"""Reads a range of a stream of which entries may be archived and trimmed after the read was planned: a long read is
overtaken by that. Such entries come from the archive, each once. Does not import Spark.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
import redis

from rta_wire import entry_ids, errors
from rta_wire.archive import selection
from rta_writers.connection import redis_client
from rta_writers.options.read import NO_ARCHIVE, ReadForm, ReadOptions
from rta_writers.read import archive_files, archive_ranges, lookup, plan

Rows = TypeVar("Rows")
ReadEntries = Callable[[ReadOptions, plan.EntryRange], Iterator[Rows]]
ReadFiles = Callable[[archive_files.ArchiveRange], Iterator[Rows]]


def read(
    options: ReadOptions,
    entry_range: plan.EntryRange,
    sample_filter: selection.SampleFilter,
    read_entries: ReadEntries[Rows],
    read_files: ReadFiles[Rows],
) -> Iterator[Rows]:
    """What the two functions make of a range: of its entries, and of files of the archive that have them by now."""
    if options.session is None or options.archive == NO_ARCHIVE or options.form is ReadForm.ENTRIES:
        yield from read_entries(options, entry_range)
        return
    strict = msgspec.structs.replace(options, fail_on_data_loss=True)
    while True:
        try:
            yield from read_entries(strict, entry_range)
        except errors.StreamGap as gap:
            # Everything before the gap was given.
            rest = msgspec.structs.replace(entry_range, after=gap.facts["after"])
            archived, behind = _find_archived(options, rest, sample_filter)
            if not archived and behind == rest:
                if options.fail_on_data_loss:
                    raise
                yield from read_entries(options, rest)
                return
        else:
            return
        for archive_range in archived:
            yield from read_files(archive_range)
        if behind is None:
            return
        entry_range = behind


def _find_archived(
    options: ReadOptions, entry_range: plan.EntryRange, sample_filter: selection.SampleFilter
) -> tuple[list[archive_files.ArchiveRange], plan.EntryRange | None]:
    """What the archive has now of a range, and what of the range comes behind that, None where nothing does.

    The range itself where the archive has nothing of it that can be used. Raises or logs what is gone in between.
    """
    [(number, identity)] = entry_range.identities.items()
    with redis_client.connect(options.redis_url) as client:
        stored = lookup.find_stored(client, options, identity, number)
        source = lookup.ReadSource(entry_range.stream, (entry_range.stream,), number, stored=stored)
        position = source.position(entry_range.stream, entry_range.after)
        share = archive_ranges.plan_archived(options, source, position, entry_range.until, sample_filter)
        files = [one for one in share.ranges if isinstance(one, archive_files.ArchiveRange)]
        if len(files) < len(share.ranges) or not entry_ids.is_after(share.until, entry_range.after):
            return [], entry_range
        if not entry_ids.is_after(entry_range.until, share.until):
            return files, None
        return files, _range_behind(client, options, entry_range, share)


def _range_behind(
    client: redis.Redis,
    options: ReadOptions,
    entry_range: plan.EntryRange,
    share: archive_ranges.ArchivedShare,
) -> plan.EntryRange:
    stream = entry_range.stream
    counters = lookup.read_counters(client, options, [stream])[stream]
    position = lookup.ReadPosition(stream, share.until)
    if (missing := plan.count_missing(client, options, position, counters, share.added)) != 0:
        plan.report_gap(options, stream, share.until, missing)
    after = share.until
    if counters.first_id is not None and entry_ids.is_after(counters.first_id, after):
        after = entry_ids.previous_id(counters.first_id)
    return msgspec.structs.replace(entry_range, after=after, removed=counters.removed)
