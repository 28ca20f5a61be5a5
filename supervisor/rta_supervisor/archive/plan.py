"""Which sessions are archived of those that can be, from which entry to which, and how they are divided into passes of
the Spark job. Pure.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_wire import archive_spec, day_streams, entry_ids, errors
from rta_wire.archive import names
from rta_wire.archive.folder import SessionArchive
from rta_wire.archive.manifest import ArchiveGap, PartManifest
from rta_wire.session import State
from rta_wire.stream.live_then_cold import StreamCounters

PASS_BYTES: Final = 4 << 30
PASS_STREAMS: Final = 16
PASS_SESSIONS: Final = 1000
"""A pass is one job of Spark: many short sessions share it, and one that is interrupted is not much work to repeat."""

NO_CHECKSUM: Final = "0" * 64
"""In place of the checksum of the last part: nothing of the session has been archived so far."""


class ArchiveCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A session that can be archived: a closed one, or one that is open."""

    identity: str
    stream: str
    stream_session_id: int
    position: str
    """The entry id after which the session begins."""
    state: State
    version: int
    opened_ms: int
    updated_ms: int
    samples: int
    stored_bytes: int
    document: bytes
    """Its Session JSON."""
    is_trimmed: bool = False
    """Whether entries of it were removed before the archive had them."""
    is_archived: bool = False
    """Whether the archive has it as it is now."""
    archived_until: str = entry_ids.MIN
    """Of an open session: the last entry that a supervisor has noted as archived."""
    archived_added: int = 0
    """How many entries had ever been added to the stream up to that one."""
    archived_checksum: str = ""
    """Of the last part that was noted, `NO_CHECKSUM` where there was none."""

    @property
    def source(self) -> str:
        return day_streams.source_of(self.stream)

    @property
    def folder(self) -> Path:
        """Its folder inside the archive."""
        return Path(names.session_folder(self.source, self.opened_ms, self.identity, self.stream_session_id))


class ArchiveFilter(msgspec.Struct, frozen=True):
    """Which candidates to archive. An empty field admits all."""

    identities: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since_ms: int = 0
    limit: int = 0
    closed_only: bool = False
    """Whether sessions that are open are left for later."""

    def admits_live(self, candidate: ArchiveCandidate) -> bool:
        """Whether a session of the index of live ones is archived: an open one, or one that was closed a moment ago."""
        return not candidate.is_archived if candidate.state.is_closed else not self.closed_only

    def select(self, candidates: Iterable[ArchiveCandidate]) -> list[ArchiveCandidate]:
        """The candidates to archive, oldest first, and closed ones first where only some are: they are done then, and
        the next run takes others. Identities are left to the caller, which reads no others."""
        selected = [
            candidate
            for candidate in sorted(candidates, key=lambda candidate: candidate.stream_session_id)
            if (not self.streams or candidate.stream in self.streams)
            and (not self.sources or candidate.source in self.sources)
            and candidate.opened_ms >= self.since_ms
        ]
        if self.limit:
            selected = sorted(selected, key=lambda candidate: not candidate.state.is_closed)[: self.limit]
        return selected


class PlannedPart(msgspec.Struct, frozen=True):
    """The part of a session that is written next: its entries after one id, up to and with another."""

    candidate: ArchiveCandidate
    archive: SessionArchive
    number: int
    after: str
    until: str
    added: int
    """How many entries had ever been added to the stream up to `until`."""
    gap: ArchiveGap | None = None
    """Entries of the stream that are gone since the last part."""
    replaced: PartManifest | None = None
    """The damaged part that this one takes the place of."""
    is_remade: bool = False
    """Whether it takes the place of a part whose manifest can't be read: what that one held is not known."""

    @property
    def is_empty(self) -> bool:
        """Whether the stream has nothing in that range."""
        return not entry_ids.is_after(self.until, self.after)

    @property
    def is_newest(self) -> bool:
        """Whether it goes up to the last entry that the stream has now: there is no part behind it."""
        return self.replaced is None and all(part.number < self.number for part in self.archive.parts)

    @property
    def is_last(self) -> bool:
        """Whether no part comes after it: the session was closed before `until` was read."""
        return self.candidate.state.is_closed and self.is_newest

    def is_needed(self, result: archive_spec.SessionResult, missing: Sequence[str]) -> bool:
        """Whether there is something to put into the archive: rows, or what was gone before it could be archived.

        `missing`: what the session lacks with this part. The first part says where the session begins, also before it
        has rows. A session with parts gets a last one in any case, which says that nothing follows.
        """
        if self.number == 1:
            return bool(result.entries)
        # What was missing before is not a reason for another part.
        has_new_gap = self.gap is not None and not {*missing[-1:]} <= {*self.archive.parts[-1].missing}
        return bool(result.files) or self.is_last or (self.is_newest and has_new_gap)

    @property
    def earlier_parts(self) -> list[PartManifest]:
        """All other parts of the session that can be used."""
        return [part for part in self.archive.sound_parts if part.number != self.number]

    @property
    def counts_all(self) -> bool:
        """Whether all samples of the session should be in this part and the others, so that those that are not are
        missing. Not where samples come behind it, or where it is not known what another part has."""
        known = {part.number for part in self.archive.parts}
        return self.is_newest and set(self.archive.damaged) <= {*known, self.number}

    @property
    def stored_bytes(self) -> int:
        """About how much is stored in Redis of what is archived now."""
        return max(0, self.candidate.stored_bytes - sum(part.stored_bytes for part in self.earlier_parts))


def check_goes_on(candidate: ArchiveCandidate, archive: SessionArchive, counters: StreamCounters) -> None:
    """Raise where a stream was lost and began again with ids that the archive takes for its own: of a clock that was
    set back. What stands in it can't be told from what is archived."""
    is_over = archive.parts and archive.parts[-1].is_last
    if counters.length and not is_over and entry_ids.is_after(archive.until, counters.last_id):
        reason = (
            f"stream {candidate.stream} was lost and began again with lower ids: it ends at {counters.last_id}, and "
            f"part {archive.parts[-1].number} at {archive.until}. Archive it in another folder, or wait until its ids "
            "are higher"
        )
        raise errors.NotArchivable(identity=candidate.identity, reason=reason)


def next_part(candidate: ArchiveCandidate, archive: SessionArchive, counters: StreamCounters) -> PlannedPart:
    """The part that follows those in the archive, up to the last entry of the stream."""
    parts = archive.parts
    after, added = (parts[-1].until, parts[-1].added) if parts else (candidate.position, 0)
    is_ours = candidate.archived_checksum == (parts[-1].checksum if parts else NO_CHECKSUM)
    if is_ours and entry_ids.is_after(candidate.archived_until, after):
        # There was nothing of the session between the two: otherwise there would be a part.
        after, added = candidate.archived_until, candidate.archived_added
    gone = counters.missing_after(after, added) if added else 0
    gap = ArchiveGap(after, counters.first_after(after) or counters.last_id, gone) if gone else None
    # A stream that was lost ends before the last part does.
    until = max(after, counters.last_id, key=entry_ids.parse)
    return PlannedPart(candidate, archive, archive.next_number, after, until, counters.added, gap)


def repairs(candidate: ArchiveCandidate, archive: SessionArchive, counters: StreamCounters) -> list[PlannedPart]:
    """Parts that take the place of damaged ones, where it is known where those began."""
    by_number = {part.number: part for part in archive.parts}
    planned: list[PlannedPart] = []
    for number in sorted(archive.damaged):
        old, before, behind = by_number.get(number), by_number.get(number - 1), by_number.get(number + 1)
        after = before.until if before is not None else candidate.position
        if old is not None:
            planned.append(PlannedPart(candidate, archive, number, old.after, old.until, old.added, replaced=old))
        elif before is not None or number == 1:
            if behind is not None:
                planned.append(PlannedPart(candidate, archive, number, after, behind.after, 0, is_remade=True))
            elif number + 1 == archive.next_number:
                until, added = counters.last_id, counters.added
                planned.append(PlannedPart(candidate, archive, number, after, until, added, is_remade=True))
    return planned


def may_lack_entries(planned: PlannedPart, counters: StreamCounters) -> bool:
    """Whether entries may be gone from the stream that a part which is made anew should have.

    `counters`: read after its entries were. The first part is not looked at: it has to begin with Session JSON.
    """
    before = next((part for part in planned.archive.parts if part.number == planned.number - 1), None)
    if before is None:
        return False
    if before.added:
        return counters.missing_after(before.until, before.added) > 0
    first_id = counters.first_after(planned.after)
    return first_id is None or entry_ids.is_after(first_id, planned.after)


def passes(planned: Iterable[PlannedPart], config: ArchiveSettings) -> tuple[archive_spec.PassSpec, ...]:
    """Sessions of one stream are read together, and streams share a pass up to a size."""
    filled: list[archive_spec.PassSpec] = []
    streams: list[archive_spec.StreamSpec] = []
    size_bytes = sessions = 0
    for stream in _stream_specs(planned, config):
        stream_bytes = sum(session.size_bytes for session in stream.sessions.values())
        is_full = size_bytes + stream_bytes > PASS_BYTES or sessions + len(stream.sessions) > PASS_SESSIONS
        if streams and (is_full or len(streams) == PASS_STREAMS):
            filled.append(archive_spec.PassSpec(tuple(streams)))
            streams, size_bytes, sessions = [], 0, 0
        streams.append(stream)
        size_bytes += stream_bytes
        sessions += len(stream.sessions)
    if streams:
        filled.append(archive_spec.PassSpec(tuple(streams)))
    return tuple(filled)


def _stream_specs(planned: Iterable[PlannedPart], config: ArchiveSettings) -> list[archive_spec.StreamSpec]:
    """A spec for each stream, or several for one with more sessions than a pass may have."""
    groups: dict[str, list[list[PlannedPart]]] = {}
    for part in planned:
        groups_of_stream = groups.setdefault(part.candidate.stream, [[]])
        if len(groups_of_stream[-1]) == PASS_SESSIONS:
            groups_of_stream.append([])
        groups_of_stream[-1].append(part)
    return [_stream_spec(stream, group, config) for stream in groups for group in groups[stream]]


def _stream_spec(stream: str, planned: Sequence[PlannedPart], config: ArchiveSettings) -> archive_spec.StreamSpec:
    source = config.for_source(day_streams.source_of(stream))
    return archive_spec.StreamSpec(
        stream=stream,
        after=min((part.after for part in planned), key=entry_ids.parse),
        until=max((part.until for part in planned), key=entry_ids.parse),
        sessions={
            part.candidate.stream_session_id: archive_spec.SessionSpec(
                part.candidate.identity, part.stored_bytes, part.after, part.number
            )
            for part in planned
        },
        sample_type=source.sample_type,
        framing=source.framing.value,
    )
