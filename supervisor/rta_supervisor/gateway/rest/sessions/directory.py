"""Every session once: a table in memory that follows Redis and the catalogue, and is searched in a worker thread.

Live sessions, and those of other producers, are read anew for each request, once a second at most. Of the catalogue,
rows that are new or not closed are read every few seconds, and the versions of all rows every half minute: closed
sessions seldom change.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.access.grant import EVERYTHING, Grant
from rta_supervisor.gateway.rest.sessions import live_sessions
from rta_supervisor.gateway.rest.sessions.listed_session import ListedSession
from rta_supervisor.gateway.rest.sessions.session_scan import SessionScan
from rta_supervisor.gateway.rest.sessions.session_table import SessionQuery, SessionTable
from rta_supervisor.transport import paging
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys

T = TypeVar("T")

LIVE_MAX_AGE_S: Final = 1.0
CATALOGUE_MAX_AGE_S: Final = 3.0
VERSIONS_MAX_AGE_S: Final = 30.0
PAGE_ROWS: Final = 2000
KEYS_PAGE: Final = 400


class SessionDirectory:
    """All sessions of a deployment. Each method gives what a grant may see."""

    def __init__(self, link: Link, names: keys.Keys, catalogue: Catalogue) -> None:
        self._link = link
        self._names = names
        self._catalogue = catalogue
        self._table = SessionTable()
        self._stored: dict[str, ListedSession] = {}
        """What the catalogue has, by identity: the newest session of each."""
        # Sessions that supervisors know are in the index or in the catalogue.
        self._scan = SessionScan(link, names, self._stored)
        self._versions: dict[str, tuple[int, int, int]] = {}
        """Number, version and time of the row of each identity, as they were read last."""
        self._open: set[str] = set()
        """Those of them that are not closed."""
        self._live: dict[str, ListedSession] = {}
        self._last_cursor: tuple[int, str] | None = None
        self._due_s = {"live": 0.0, "catalogue": 0.0, "versions": 0.0}
        self._lock = anyio.Lock()
        self._limiter = anyio.CapacityLimiter(1)
        self._is_failing = False

    async def find(self, query: SessionQuery, grant: Grant) -> list[ListedSession]:
        """A page of the sessions that match. Raises `TimeoutError` where the time of the caller ends: a worker thread
        goes on without it else, and everybody waits."""
        deadline_s = anyio.current_effective_deadline()

        def check() -> None:
            if time.monotonic() > deadline_s:
                raise TimeoutError("The query takes too long. Ask for less at a time.")

        def search() -> list[ListedSession]:
            streams = None
            if EVERYTHING not in grant.prefixes:
                streams = frozenset(stream for stream in self._table.streams() if grant.may_see(stream))
            wanted = SessionQuery(query.criterion, query.sort, query.first, query.count, streams)
            return self._table.find(wanted, check)

        return await self.run(search)

    async def get(self, identity: str, grant: Grant) -> ListedSession:
        """The newest session of an identity. Raises `NoSuchSession`, also for one that the grant may not see."""
        session = await live_sessions.read_one(self._link, self._names, identity)
        if session is None or not grant.may_see(session.stream):
            # Looked for there in both cases: where the catalogue can't be used, the answer must be the same too.
            row = await self._catalogue.get(identity)
            session = None if row is None else ListedSession.from_catalogue(row)
        if session is None or not grant.may_see(session.stream):
            raise errors.NoSuchSession(identity=identity, nearest="")
        return session

    async def describe(self, identity: str, grant: Grant) -> ListedSession:
        """The same, with its number of samples, which Redis does not have."""
        session = await self.get(identity, grant)
        if session.samples is not None:
            return session
        try:
            row = await self._catalogue.get(identity)
        except errors.CatalogueUnavailable:
            return session
        return session if row is None else session.counted_as(ListedSession.from_catalogue(row))

    async def visible_rows(self, grant: Grant) -> list[ListedSession]:
        """Every session that may be seen, in any order."""
        return await self.run(lambda: [row for row in self._table.rows if grant.may_see(row.stream)])

    async def run(self, work: Callable[[], T]) -> T:
        """Call a function in the worker thread when the table is up to date. No other call changes it meanwhile."""
        async with self._lock:
            await self._refresh()
            return await anyio.to_thread.run_sync(work, limiter=self._limiter)

    async def _refresh(self) -> None:
        """Read what is due. A session that is live no more is read from the catalogue, which had it before."""
        live = None
        if self._take_due("live", LIVE_MAX_AGE_S):
            try:
                live = await live_sessions.read_all(self._link, self._names, await self._scan.identities())
            except BaseException:
                # The next request must not be answered with what was true before an outage.
                self._due_s["live"] = 0.0
                raise
        try:
            is_due = self._take_due("catalogue", CATALOGUE_MAX_AGE_S)
            if is_due:
                await self._read_catalogue()
            if live is not None:
                await self._read_rows(sorted(self._live.keys() - live.keys()))
            if self._is_failing and is_due:
                self._is_failing = False
                log.get().info("gateway_catalogue_back")
        except errors.CatalogueUnavailable as error:
            if not self._is_failing:
                self._is_failing = True
                log.get().error("gateway_catalogue_unavailable", error=str(error))
        if live is not None:
            await anyio.to_thread.run_sync(self._take_live, live, limiter=self._limiter)

    def _take_due(self, what: str, max_age_s: float) -> bool:
        now_s = anyio.current_time()
        if now_s < self._due_s[what]:
            return False
        self._due_s[what] = now_s + max_age_s
        return True

    async def _read_catalogue(self) -> None:
        is_first = self._last_cursor is None
        while page := await self._catalogue.page_after(self._last_cursor, limit=PAGE_ROWS):
            self._last_cursor = page[-1].page_cursor
            await self._take_stored(page)
            if len(page) < PAGE_ROWS:
                break
        if not is_first:
            was_open = set(self._open)
            unfinished = await self._catalogue.unfinished()
            await self._take_stored(unfinished)
            await self._read_rows(sorted(was_open - {row.identity for row in unfinished}))
        if self._take_due("versions", VERSIONS_MAX_AGE_S) and not is_first:
            changed = [
                identity
                for identity, *version in await self._catalogue.versions()
                if self._versions.get(identity, (-1, 0, 0)) < tuple(version)
            ]
            await self._read_rows(changed)

    async def _read_rows(self, identities: Sequence[str]) -> None:
        """Read the closed sessions of some identities. Those that are not closed are read in any case."""
        for page in paging.pages(identities, KEYS_PAGE):
            await self._take_stored(await self._catalogue.closed(page))

    async def _take_stored(self, rows: Sequence[CatalogueRow]) -> None:
        def take() -> None:
            for row in rows:
                version = (row.stream_session_id, row.version, row.updated_ms)
                if self._versions.get(row.identity, (-1, 0, 0)) > version:
                    continue
                self._versions[row.identity] = version
                self._stored[row.identity] = session = ListedSession.from_catalogue(row)
                (self._open.discard if row.state.is_closed else self._open.add)(row.identity)
                live = self._live.get(row.identity)
                if live is None or live.stream_session_id < session.stream_session_id:
                    self._table.put(session)
                else:
                    self._table.put(live.counted_as(session))

        if rows:
            await anyio.to_thread.run_sync(take, limiter=self._limiter)

    def _take_live(self, live: dict[str, ListedSession]) -> None:
        for identity in self._live.keys() - live.keys():
            stored = self._stored.get(identity)
            if stored is None:
                self._table.remove(identity)
            else:
                self._table.put(stored)
        self._live = live
        for identity, row in live.items():
            stored = self._stored.get(identity)
            if stored is None or stored.stream_session_id <= row.stream_session_id:
                self._table.put(row.counted_as(stored))
