"""Reads sessions from Redis as viewers are shown them: hashes of those in the index, or of one identity."""

from collections.abc import Iterable, Sequence
from typing import Any

from rta_supervisor.gateway import session_hash
from rta_supervisor.gateway.rest.sessions.listed_session import ListedSession
from rta_supervisor.transport import paging, scanning
from rta_supervisor.transport.failures import classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_wire import keys


async def read_all(link: Link, names: keys.Keys, others: Iterable[str] = ()) -> dict[str, ListedSession]:
    """Every live session, by identity, and some other ones. One without Session JSON is not ready, and is left out."""
    scores = await scanning.read_sorted_set(link, names.session_index())
    identities = list(dict.fromkeys([*(raw.decode(errors="replace") for raw in scores), *others]))
    rows = [row for page in paging.pages(identities, paging.PAGE_SIZE) for row in await _read(link, names, page) if row]
    return {row.identity: row for row in rows}


async def read_one(link: Link, names: keys.Keys, identity: str) -> ListedSession | None:
    """One session, live or closed, whoever wrote it; None where Redis does not have it."""
    [row] = await _read(link, names, [identity])
    return row


async def _read(link: Link, names: keys.Keys, identities: Sequence[str]) -> list[ListedSession | None]:
    replies = await link.try_all([("HMGET", names.session(identity), *session_hash.FIELDS) for identity in identities])
    return [_parse(identity, reply) for identity, reply in zip(identities, replies, strict=True)]


def _parse(identity: str, reply: Any) -> ListedSession | None:
    if isinstance(reply, Exception):
        # Somebody has put something else in place of a hash: that hides no other session.
        if not is_key_specific(reply):
            raise classify(reply)
        return None
    fields = session_hash.parse(reply)
    if fields is None:
        return None
    return ListedSession(
        identity,
        fields.stream,
        fields.stream_session_id,
        fields.json,
        time_range_ns=fields.time_range_ns,
        position=fields.first_position,
        is_in_redis=True,
    )
