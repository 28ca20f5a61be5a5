"""Reads from Redis which sessions can be archived. Which of them are chosen is decided in `plan`."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from rta_supervisor.archive.plan import ArchiveCandidate, ArchiveFilter
from rta_supervisor.retention import session_index
from rta_supervisor.retention.unarchived_session import UnarchivedSession
from rta_supervisor.session import model as session_model
from rta_supervisor.settings import settings
from rta_supervisor.transport import paging, replies, scanning
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys
from rta_wire.session import State
from rta_wire.stream import cold_index, cursor, live_then_cold

READ_MAX_SESSIONS: Final = 500

_STATE_FIELDS: Final = (
    keys.STREAM_SESSION_ID,
    keys.STREAM_NAME,
    keys.STATE,
    keys.VERSION,
    keys.OPENED_MS,
    keys.TOTALS,
    keys.CUT,
    keys.ARCHIVED_UNTIL,
    keys.ARCHIVED_VERSION,
)
_HASH_FIELDS: Final = (keys.STREAM_POSITION, keys.LAST_UPDATED, keys.JSON)


async def find(link: Link, config: settings.Settings, archive_filter: ArchiveFilter) -> list[ArchiveCandidate]:
    """The sessions to archive: unarchived ones that the filter selects, or those that it names."""
    if archive_filter.identities:
        return archive_filter.select(await _read_named(link, config, archive_filter.identities))
    # The index first: a session is listed as unarchived before it leaves the index. One that was closed a moment ago is
    # in the index and not listed yet.
    live = set(await session_index.live_identities(link, config.keys))
    members = await scanning.read_sorted_set(link, config.keys.unarchived())
    unarchived = [UnarchivedSession.parse(member) for member in members]
    candidates = await read(link, config, list({*live, *(session.identity for session in unarchived)}))
    by_session_id = {candidate.stream_session_id: candidate for candidate in candidates.values()}
    listed = {session.stream_session_id for session in unarchived}
    # A session that is gone, or was opened again under its identity, is unlisted by the supervisor.
    return archive_filter.select(
        candidate
        for number, candidate in by_session_id.items()
        if number in listed or (candidate.identity in live and archive_filter.admits_live(candidate))
    )


async def read_counters(
    link: Link, config: settings.Settings, streams: Collection[str]
) -> dict[str, live_then_cold.StreamCounters]:
    """Ids and numbers of entries of streams as they are now. The live parts are read before the index of cold ones."""
    names = sorted(streams)
    live = [await replies.read_stream_info(link, keys.stream(stream)) for stream in names]
    raw_extents = await link.do("HMGET", config.keys.cold_index(), *names) if names else []
    pages = [None if info is None else cursor.parse_page(replies.text_names(info), (), asked=0) for info in live]
    return {
        stream: live_then_cold.combine_counters(page, cold_index.parse(raw))
        for stream, page, raw in zip(names, pages, raw_extents, strict=True)
    }


async def _read_named(link: Link, config: settings.Settings, identities: Sequence[str]) -> list[ArchiveCandidate]:
    """Sessions by their identities. Raises where one does not exist."""
    candidates = await read(link, config, identities)
    for identity in identities:
        if identity not in candidates:
            raise errors.NoSuchSession(identity=identity, nearest=" in Redis")
    return list(candidates.values())


async def read(link: Link, config: settings.Settings, identities: Sequence[str]) -> dict[str, ArchiveCandidate]:
    """Sessions as they are in Redis now, by identity; those that do not exist are left out."""
    candidates: dict[str, ArchiveCandidate] = {}
    for page in paging.pages(identities, READ_MAX_SESSIONS):
        replies = await link.do_all(
            [
                command
                for identity in page
                for command in (
                    ("HMGET", config.keys.session_state(identity), *_STATE_FIELDS),
                    ("HMGET", config.keys.session(identity), *_HASH_FIELDS),
                )
            ]
        )
        for identity, state_fields, hash_fields in zip(page, replies[::2], replies[1::2], strict=True):
            if state_fields[0] is not None and hash_fields[2] is not None:
                candidates[identity] = _parse(identity, state_fields, hash_fields)
    return candidates


def _parse(identity: str, state_fields: Sequence[Any], hash_fields: Sequence[Any]) -> ArchiveCandidate:
    number, stream, state, version, opened_ms, raw_totals, cut, archived, archived_version = state_fields
    position, updated_ms, document = hash_fields
    totals = session_model.parse_totals(raw_totals)
    archived_until, added, checksum = (archived.decode() if archived else f"{entry_ids.MIN} 0 ").split(" ")
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
        is_archived=archived_version == version,
        archived_until=archived_until,
        archived_added=int(added),
        archived_checksum=checksum,
    )
