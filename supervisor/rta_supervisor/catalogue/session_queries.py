"""Serves requests that look at sessions: one by its name, or many by a search. Changes nothing.

What Redis has of a session goes before what the catalogue has. A principal sees its own sessions, an operator all.
"""

from collections.abc import Sequence
from typing import Final

import anyio
import msgspec

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow, Query
from rta_supervisor.catalogue.sync import RecentSessions
from rta_supervisor.catalogue.writer import ROW_FIELDS, CatalogueWriter, row_from_redis
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.session.opening.external_ids import ExternalId, ExternalIds
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys, limits
from rta_wire.pb import control_pb2
from rta_wire.session import State

PAGE_SESSIONS: Final = 64
PAGE_BYTES: Final = 128 * limits.KIB
"""Sessions and bytes of one reply, about: the next page has the rest."""

LISTED_JSON_MAX_BYTES: Final = 32 * limits.KIB
"""Session JSON in a list. What is larger is left out there, and is there for who asks for that session."""

JSON_PART_BYTES: Final = 128 * limits.KIB
"""Session JSON in the reply about one session. The client asks for the next part."""

FLUSH_MAX_S: Final = 2.0
"""How long a search waits until what changed before it is in the catalogue."""


class _FoundSession(msgspec.Struct, frozen=True):
    row: CatalogueRow
    is_in_redis: bool


class SessionQueries:
    """Looks at sessions in Redis and in the catalogue."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        catalogue: Catalogue,
        writer: CatalogueWriter,
        external_ids: ExternalIds,
    ) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config
        self._catalogue = catalogue
        self._writer = writer
        self._recent = RecentSessions(link, config, writer.mark_changed)
        self._external_ids = external_ids

    async def get(self, entry: ControlEntry, request: control_pb2.GetSession) -> control_pb2.SessionPage:
        """One session, with its Session JSON from an offset on."""
        owner = self._visible_owner(entry.principal)
        identity = request.identity or await self._identity_of(entry.principal, request.external_id)
        session = await self._find_session(identity)
        # Whether others have a session of that identity is not told.
        if session is None or owner not in ("", session.row.principal):
            raise errors.UnknownSession(identity=identity)
        row = session.row
        try:
            folders = await self._catalogue.archive_folders([(row.stream, row.stream_session_id)])
        except errors.CatalogueUnavailable:
            folders = {}
        found = _to_message(session, folders.get((row.stream, row.stream_session_id), ""))
        document = row.json.encode()
        found.json = document[request.json_offset : request.json_offset + JSON_PART_BYTES]
        found.json_bytes = len(document)
        return control_pb2.SessionPage(sessions=[found])

    async def search(self, entry: ControlEntry, request: control_pb2.ListSessions) -> control_pb2.SessionPage:
        """A page of the sessions that match, the highest id first."""
        with anyio.move_on_after(FLUSH_MAX_S):
            await self._recent.look()
            await self._writer.flush_changes()
        states = tuple(map(State, request.states))
        count = min(request.limit or PAGE_SESSIONS, PAGE_SESSIONS)
        after = request.after
        rows = await self._catalogue.find(
            Query(
                text=request.text,
                states=states,
                stream=request.stream,
                since_ns=request.since_ns if request.HasField("since_ns") else None,
                until_ns=request.until_ns if request.HasField("until_ns") else None,
                details=tuple(sorted(request.details.items())),
                principal=self._visible_owner(entry.principal),
            ),
            limit=count,
            before=(after.stream_session_id, after.identity) if request.HasField("after") else None,
            json_max_chars=LISTED_JSON_MAX_BYTES,
        )
        return await self._page(rows, states, is_last=len(rows) < count)

    def _visible_owner(self, principal: str) -> str:
        """Whose sessions a principal sees; empty for those of all."""
        return "" if principal in self._config.control.operators else principal

    async def _page(
        self, rows: Sequence[CatalogueRow], states: Sequence[State], *, is_last: bool
    ) -> control_pb2.SessionPage:
        """Sessions of the catalogue as they stand now. `is_last`: whether there are none after them."""
        folders = await self._catalogue.archive_folders([(row.stream, row.stream_session_id) for row in rows])
        page = control_pb2.SessionPage()
        size_bytes = 0
        for row, session in zip(rows, await self._with_redis(rows), strict=True):
            # It may have changed since it was in the catalogue like this.
            if states and session.row.state not in states:
                continue
            found = _to_message(session, folders.get((row.stream, row.stream_session_id), ""))
            document = session.row.json.encode()
            if len(document) <= LISTED_JSON_MAX_BYTES:
                found.json = document
                found.json_bytes = len(document)
            size_bytes += found.ByteSize()
            if page.sessions and size_bytes > PAGE_BYTES:
                _set_next(page, page.sessions[-1].stream_session_id, page.sessions[-1].identity)
                return page
            page.sessions.append(found)
        if not is_last:
            _set_next(page, *rows[-1].page_cursor)
        return page

    async def _identity_of(self, principal: str, external_id: str) -> str:
        """The identity of the session that an external id stands for, or stood for last."""
        try:
            return await self._external_ids.identity_of(ExternalId(principal, external_id))
        except errors.UnknownExternalId:
            owner = self._visible_owner(principal)
            known = [one for one in await self._catalogue.external_ids(external_id) if owner in ("", one.principal)]
            if not known:
                raise
        principals = sorted({one.principal for one in known})
        if len(principals) > 1:
            raise errors.AmbiguousExternalId(external_id=external_id, principals=", ".join(map(repr, principals)))
        return known[0].identity

    async def _find_session(self, identity: str) -> _FoundSession | None:
        [live] = await self._read_redis([identity], with_json=True)
        if live is not None:
            return _FoundSession(live, is_in_redis=True)
        row = await self._catalogue.get(identity)
        return None if row is None else _FoundSession(row, is_in_redis=False)

    async def _with_redis(self, rows: Sequence[CatalogueRow]) -> list[_FoundSession]:
        """Rows of the catalogue with what Redis has of these sessions. Newer JSON is read from there."""
        live = await self._read_redis([row.identity for row in rows], with_json=False)
        live = [
            current if current is not None and current.stream_session_id == row.stream_session_id else None
            for row, current in zip(rows, live, strict=True)
        ]
        stale = [
            row.identity
            for row, current in zip(rows, live, strict=True)
            if current is not None and current.version > row.version
        ]
        newer = {row.identity: row for row in await self._read_redis(stale, with_json=True) if row is not None}
        return [
            _FoundSession(row, is_in_redis=False)
            if current is None
            else _FoundSession(
                newer.get(row.identity) or msgspec.structs.replace(current, json=row.json), is_in_redis=True
            )
            for row, current in zip(rows, live, strict=True)
        ]

    async def _read_redis(self, identities: Sequence[str], *, with_json: bool) -> list[CatalogueRow | None]:
        """Sessions as Redis has them; None for one that it does not have, or whose keys somebody spoilt."""
        fields = (keys.LAST_UPDATED, keys.JSON) if with_json else (keys.LAST_UPDATED,)
        replies = await self._link.try_all(
            [
                command
                for identity in identities
                for command in (
                    ("HMGET", self._keys.session_state(identity), *ROW_FIELDS),
                    ("HMGET", self._keys.session(identity), *fields),
                )
            ]
        )
        return [
            _parse_row(identity, state, hash_)
            for identity, state, hash_ in zip(identities, replies[::2], replies[1::2], strict=True)
        ]


def _parse_row(
    identity: str, state: Sequence[bytes | None] | Exception, hash_: Sequence[bytes | None] | Exception
) -> CatalogueRow | None:
    """`state`, `hash_`: replies about the folded state and the hash of a session, which may be errors."""
    for reply in (state, hash_):
        if isinstance(reply, Exception) and not is_key_specific(reply):
            raise classify(reply)
    if isinstance(state, Exception) or isinstance(hash_, Exception) or state[0] is None:
        return None
    *row_fields, _ = state
    updated_ms, *document = hash_
    return row_from_redis(identity, row_fields, (document[0] if document else None, None), int(updated_ms or 0))


def _set_next(page: control_pb2.SessionPage, stream_session_id: int, identity: str) -> None:
    """Let the next page begin after a session."""
    page.next.stream_session_id = stream_session_id
    page.next.identity = identity


def _to_message(session: _FoundSession, archive_folder: str) -> control_pb2.FoundSession:
    """A session without its JSON."""
    row = session.row
    return control_pb2.FoundSession(
        identity=row.identity,
        stream=row.stream,
        stream_session_id=row.stream_session_id,
        state=row.state.value,
        totals=row.totals.to_message(),
        principal=row.principal,
        version=row.version,
        opened_ms=row.opened_ms,
        updated_ms=row.updated_ms,
        is_in_redis=session.is_in_redis,
        archive_location=archive_folder,
    )
