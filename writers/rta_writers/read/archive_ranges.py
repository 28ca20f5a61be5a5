"""Which part of a read comes from the archive, and where the stream goes on. Does not import Spark."""

import itertools
from typing import Final

import msgspec

from rta_wire import entry_ids, errors
from rta_wire.archive import selection
from rta_wire.archive.folder import Segment
from rta_writers.options.read import ReadForm, ReadOptions
from rta_writers.read import archive_files, lookup


class ArchivedShare(msgspec.Struct, frozen=True):
    """What of a read the archive has."""

    ranges: tuple[archive_files.ArchiveRange | Segment, ...] = ()
    """In the order of the stream. A segment is a hole: of its entries the archive has nothing that can be used."""
    until: str = entry_ids.MIN
    """The stream has what comes after this entry."""
    added: int | None = None
    """How many entries had ever been added to the stream up to there, None where that is not known."""
    is_all: bool = False
    """Whether the session ends there."""


NOTHING: Final = ArchivedShare()


def plan_archived(
    options: ReadOptions,
    source: lookup.ReadSource,
    position: lookup.ReadPosition,
    until: str,
    sample_filter: selection.SampleFilter,
) -> ArchivedShare:
    """What the archive has of a session after a position, up to an entry. What it lacks is reported."""
    stored = source.stored
    if stored is None:
        return NOTHING
    archive = stored.archive
    segments = [_usable(segment) for segment in archive.segments(position.after, until)]
    for segment in segments:
        if segment.part is not None and segment.part.missing:
            _report_missing(options, stored, segment)
    counters = selection.ReadCounters()
    kind = "events" if options.form is ReadForm.EVENTS else "samples"
    ranges: list[archive_files.ArchiveRange | Segment] = []
    for is_hole, group in itertools.groupby(segments, lambda segment: segment.part is None):
        group_segments = list(group)
        ranges += (
            group_segments
            if is_hole
            else archive_files.plan_ranges(stored, kind, group_segments, sample_filter, counters)
        )
    if segments:
        archive_files.log_counters(counters, f"session {options.session!r}")
    last = archive.parts[-1]
    is_closed = last.is_last and not entry_ids.is_after(last.until, until)
    return ArchivedShare(
        ranges=tuple(ranges),
        until=last.until,
        added=last.added or None,
        is_all=is_closed or (last.is_last and not entry_ids.is_after(until, last.until)),
    )


def _usable(segment: Segment) -> Segment:
    """A hole in place of a segment that asks for some entries of a part whose files can't tell them from others."""
    part = segment.part
    if part is None or segment.is_whole_part or archive_files.can_cut(part):
        return segment
    problem = f"Part {part.number} of session {part.identity!r} was archived by an older version and is read as a whole"
    return segment._replace(part=None, problem=problem)


def _report_missing(options: ReadOptions, stored: archive_files.StoredSession, segment: Segment) -> None:
    assert segment.part is not None
    sentence = (
        f"The archive of session {segment.part.identity!r} in {stored.folder} lacks {'; '.join(segment.part.missing)}. "
        "Set option 'failOnDataLoss' to false to go on with what is there."
    )
    if options.fail_on_data_loss:
        raise errors.StreamGap(sentence, stream=segment.part.stream)
    archive_files.log.warning("%s", sentence)
