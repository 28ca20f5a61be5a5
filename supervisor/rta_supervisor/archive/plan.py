"""Which sessions are archived, and in which order: reads what waits, chooses, and divides it into passes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rta_supervisor.archive import folders
from rta_supervisor.retention.archive_queue import UnarchivedSession
from rta_supervisor.session import model as session_model
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_supervisor.transport import paging
from rta_supervisor.transport.link import Link
from rta_wire import archive_spec, day_streams, entry_ids, errors, keys
from rta_wire.session import State

READ_MAX_SESSIONS: Final = 500
PASS_BYTES: Final = 4 << 30
PASS_STREAMS: Final = 16
PASS_SESSIONS: Final = 1000
"""One pass is one job of Spark: many short sessions share it, and what it left is not much work to do again."""

_STATE_FIELDS: Final = (
    *(keys.STREAM_SESSION_ID, keys.STREAM_NAME, keys.STATE, keys.VERSION, keys.OPENED_MS, keys.TOTALS),
    *(keys.ARCHIVED, keys.ARCHIVED_VERSION, keys.CUT),
)
_HASH_FIELDS: Final = (keys.STREAM_POSITION, keys.LAST_UPDATED, keys.JSON)


class ArchiveCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A closed session that the archive does not have as it is now."""

    identity: str
    stream: str
    stream_session_id: int
    position: str
    state: State
    version: int
    opened_ms: int
    updated_ms: int
    samples: int
    stored_bytes: int
    document: bytes
    is_trimmed: bool = False
    """Entries of it were trimmed before the archive had them."""

    @property
    def source(self) -> str:
        return day_streams.source_of(self.stream)

    @property
    def folder(self) -> Path:
        return folders.session_folder(self.source, self.opened_ms, self.identity, self.stream_session_id)


class ArchiveFilter(msgspec.Struct, frozen=True):
    """Which of those that wait. What is empty does not matter."""

    identities: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since_ms: int = 0
    limit: int = 0

    def select(self, found: Iterable[ArchiveCandidate]) -> list[ArchiveCandidate]:
        """Oldest first."""
        chosen = [
            one
            for one in sorted(found, key=lambda one: one.stream_session_id)
            if (not self.streams or one.stream in self.streams)
            and (not self.sources or one.source in self.sources)
            and one.opened_ms >= self.since_ms
        ]
        return chosen[: self.limit or None]


async def find_candidates(link: Link, config: settings.Settings, choice: ArchiveFilter) -> list[ArchiveCandidate]:
    """Those that wait and are chosen, or those that are named, whether they are listed or not."""
    if choice.identities:
        found = await read(link, config, list(choice.identities))
        for identity in choice.identities:
            if identity not in found:
                raise errors.NoSuchSession(identity=identity, nearest=" in Redis")
            if not found[identity].state.is_closed:
                raise errors.NotArchivable(identity=identity, reason=f"it is {found[identity].state}. Close it first")
        return choice.select(found.values())
    listed = [UnarchivedSession.parse(raw) for raw in await link.do("ZRANGE", config.keys.unarchived(), 0, -1)]
    found = await read(link, config, [one.identity for one in listed])
    by_number = {one.stream_session_id: one for one in found.values()}
    # One that is gone, or came again under its name, is the supervisor's to take off the list.
    return choice.select(by_number[one.stream_session_id] for one in listed if one.stream_session_id in by_number)


async def read(link: Link, config: settings.Settings, identities: Sequence[str]) -> dict[str, ArchiveCandidate]:
    """Sessions as they stand in Redis, those that there are."""
    found: dict[str, ArchiveCandidate] = {}
    for some in paging.pages(identities, READ_MAX_SESSIONS):
        answers = await link.do_all(
            [
                call
                for identity in some
                for call in (
                    ("HMGET", config.keys.session_state(identity), *_STATE_FIELDS),
                    ("HMGET", config.keys.session(identity), *_HASH_FIELDS),
                )
            ]
        )
        for identity, ours, theirs in zip(some, answers[::2], answers[1::2], strict=True):
            if ours[0] is not None and theirs[2] is not None:
                found[identity] = _candidate(identity, ours, theirs)
    return found


def _candidate(identity: str, ours: Sequence[Any], theirs: Sequence[Any]) -> ArchiveCandidate:
    number, stream, state, version, opened_ms, words, _, _, cut = ours
    position, updated_ms, document = theirs
    totals = session_model.parse_totals(words)
    return ArchiveCandidate(
        identity=identity,
        stream=stream.decode(),
        stream_session_id=int(number),
        position=position.decode() if position else entry_ids.MIN,
        state=State(state.decode()),
        version=int(version),
        opened_ms=int(opened_ms),
        updated_ms=int(updated_ms or opened_ms),
        samples=totals.samples,
        stored_bytes=totals.stored_bytes,
        document=document,
        is_trimmed=cut is not None,
    )


def passes(todo: Sequence[ArchiveCandidate], config: ArchiveSettings) -> tuple[archive_spec.PassSpec, ...]:
    """Sessions of one stream are read together, and streams in groups."""
    made: list[archive_spec.PassSpec] = []
    streams: list[archive_spec.StreamSpec] = []
    size = count = 0
    for stream in _by_stream(todo, config):
        stream_size = sum(one.size_bytes for one in stream.sessions.values())
        is_full = size + stream_size > PASS_BYTES or count + len(stream.sessions) > PASS_SESSIONS
        if streams and (is_full or len(streams) == PASS_STREAMS):
            made.append(archive_spec.PassSpec(tuple(streams)))
            streams, size, count = [], 0, 0
        streams.append(stream)
        size, count = size + stream_size, count + len(stream.sessions)
    if streams:
        made.append(archive_spec.PassSpec(tuple(streams)))
    return tuple(made)


def _by_stream(todo: Sequence[ArchiveCandidate], config: ArchiveSettings) -> list[archive_spec.StreamSpec]:
    by_stream: dict[str, list[ArchiveCandidate]] = {}
    for one in todo:
        by_stream.setdefault(one.stream, []).append(one)
    return [
        _stream_spec(stream, page, config)
        for stream, candidates in by_stream.items()
        for page in paging.pages(candidates, PASS_SESSIONS)
    ]


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
