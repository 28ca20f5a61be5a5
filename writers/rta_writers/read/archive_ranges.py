"""Which part of a read comes from the archive, and where the stream goes on. Does not import Spark."""

import itertools
from typing import Final

import msgspec
import redis

from rta_wire import entry_ids, errors
from rta_wire.archive import selection
from rta_wire.archive.folder import Segment
from rta_wire.stream.live_then_cold import StreamCounters
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
    lost_end: str = ""
    """Why parts behind that can't be read, empty where there are none. The stream may still have their entries."""

    def stream_position(
        self, position: lookup.ReadPosition, added: int | None = None
    ) -> tuple[lookup.ReadPosition, int | None]:
        """Where a read from a position goes on in the stream, and how many entries had been added up to there.

        `added`: the same number for `position`, None where it is not known. A read may begin behind the archive: what
        is gone between the two does not matter to it.
        """
        if entry_ids.is_after(self.until, position.after):
            return msgspec.structs.replace(position, after=self.until), self.added
        is_same = not entry_ids.is_after(position.after, self.until)
        return position, self.added if is_same and added is None else added


NOTHING: Final = ArchivedShare()


def read_source_counters(
    client: redis.Redis, options: ReadOptions, source: lookup.ReadSource
) -> dict[str, StreamCounters]:
    """Counters of the streams of a source. One that is gone reaches to where the archive ends.

    Raises `StreamGap` where it was made anew with ids that the archive takes for its own, after a clock was set back.
    """
    counters = lookup.read_counters(client, options, source.streams)
    if source.stored is None:
        return counters
    last = source.stored.archive.parts[-1]
    for stream, now in counters.items():
        if now.length and not last.is_last and entry_ids.is_after(last.until, now.last_id):
            sentence = (
                f"Stream {stream!r} was lost and began again with lower ids: it ends at {now.last_id}, and the archive "
                f"of session {last.identity!r} at {last.until}. What it has since then can't be told from what is "
                "archived. Set option 'failOnDataLoss' to false to read what is archived."
            )
            if options.fail_on_data_loss:
                raise errors.StreamGap(sentence, stream=stream)
            archive_files.log.warning("%s", sentence)
    return {
        stream: msgspec.structs.replace(now, last_id=last.until, added=max(now.added, last.added))
        if entry_ids.is_after(last.until, now.last_id)
        else now
        for stream, now in counters.items()
    }


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
    known_until, added = archive.known_until
    return ArchivedShare(
        ranges=tuple(ranges),
        until=known_until,
        added=added or None,
        is_all=is_closed or (last.is_last and not entry_ids.is_after(until, last.until)),
        lost_end=archive.lost_end if _reaches_over(position.after, until, last.until) else "",
    )


def _reaches_over(after: str, until: str, entry_id: str) -> bool:
    """Whether a read begins before an entry or right behind it, and goes up to it or further."""
    return not entry_ids.is_after(after, entry_id) and not entry_ids.is_after(entry_id, until)


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
