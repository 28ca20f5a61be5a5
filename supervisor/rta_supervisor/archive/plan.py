"""Which sessions are archived of those that can be, and how they are divided into passes of the Spark job. Pure."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rta_supervisor.archive import folders
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_wire import archive_spec, day_streams, entry_ids
from rta_wire.session import State

PASS_BYTES: Final = 4 << 30
PASS_STREAMS: Final = 16
PASS_SESSIONS: Final = 1000
"""A pass is one job of Spark: many short sessions share it, and one that is interrupted is not much work to repeat."""


class ArchiveCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A closed session that the archive does not have as it is now."""

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

    @property
    def source(self) -> str:
        return day_streams.source_of(self.stream)

    @property
    def folder(self) -> Path:
        """Its folder inside the archive."""
        return folders.session_folder(self.source, self.opened_ms, self.identity, self.stream_session_id)


class ArchiveFilter(msgspec.Struct, frozen=True):
    """Which candidates to archive. An empty field admits all."""

    identities: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since_ms: int = 0
    limit: int = 0

    def select(self, candidates: Iterable[ArchiveCandidate]) -> list[ArchiveCandidate]:
        """The candidates to archive, oldest first. Identities are left to the caller, which reads no others."""
        selected = [
            candidate
            for candidate in sorted(candidates, key=lambda candidate: candidate.stream_session_id)
            if (not self.streams or candidate.stream in self.streams)
            and (not self.sources or candidate.source in self.sources)
            and candidate.opened_ms >= self.since_ms
        ]
        return selected[: self.limit or None]


def passes(candidates: Iterable[ArchiveCandidate], config: ArchiveSettings) -> tuple[archive_spec.PassSpec, ...]:
    """Sessions of one stream are read together, and streams share a pass up to a size."""
    filled: list[archive_spec.PassSpec] = []
    streams: list[archive_spec.StreamSpec] = []
    size_bytes = sessions = 0
    for stream in _stream_specs(candidates, config):
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


def _stream_specs(candidates: Iterable[ArchiveCandidate], config: ArchiveSettings) -> list[archive_spec.StreamSpec]:
    """A spec for each stream, or several for one with more sessions than a pass may have."""
    groups: dict[str, list[list[ArchiveCandidate]]] = {}
    for candidate in candidates:
        groups_of_stream = groups.setdefault(candidate.stream, [[]])
        if len(groups_of_stream[-1]) == PASS_SESSIONS:
            groups_of_stream.append([])
        groups_of_stream[-1].append(candidate)
    return [_stream_spec(stream, group, config) for stream in groups for group in groups[stream]]


def _stream_spec(
    stream: str, candidates: Sequence[ArchiveCandidate], config: ArchiveSettings
) -> archive_spec.StreamSpec:
    source = config.for_source(day_streams.source_of(stream))
    return archive_spec.StreamSpec(
        stream=stream,
        after=min((candidate.position for candidate in candidates), key=entry_ids.parse),
        sessions={
            candidate.stream_session_id: archive_spec.SessionSpec(
                candidate.identity, candidate.stored_bytes, candidate.opened_ms, candidate.updated_ms
            )
            for candidate in candidates
        },
        sample_type=source.sample_type,
        framing=source.framing.value,
    )
