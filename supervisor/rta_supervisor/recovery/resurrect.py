"""Sessions that Redis forgot, published again from the catalogue where an operator asks for one.

The catalogue may be slow or away, and requests are served one by one: it is asked from the side, and the request waits
among those that are looked at again.
"""

from typing import Final, Protocol

import anyio

from rta_supervisor.catalogue.model import Catalogue, CatalogueRow
from rta_supervisor.diagnostics import log, loop_watch
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.session import service as session_service
from rta_supervisor.session.model import SessionRecord
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys
from rta_wire.pb import control_pb2

ANSWERS_MAX: Final = 1000
"""Answers of the catalogue that nobody came back for: their requests were cancelled, or served elsewhere."""

CatalogueAnswer = CatalogueRow | None | errors.CatalogueUnavailable


class SessionRestorer(Protocol):
    """What brings sessions back after a loss."""

    async def restore_session(self, row: CatalogueRow) -> bool: ...
    async def mark_loss(self, row: CatalogueRow) -> bool: ...
    async def close_as(self, known: SessionRecord, row: CatalogueRow) -> None: ...


class Resurrection:
    """Asks the catalogue, then makes Redis know as much: never less than it does, and never a second time."""

    def __init__(
        self,
        link: Link,
        sessions: SessionStore,
        restorer: SessionRestorer,
        catalogue: Catalogue,
        config: settings.Settings,
        *,
        clock: Clock = now_ms,
    ) -> None:
        self._link = link
        self._sessions = sessions
        self._restoring = restorer
        self._catalogue = catalogue
        self._keys = config.keys
        self._config = config
        self._operators = config.control.operators
        self._clock = clock
        self._asked: dict[str, str] = {}
        self._answers: dict[str, CatalogueAnswer] = {}
        self._some = anyio.Event()
        self._log = log.get()

    async def run(self) -> None:
        """Ask the catalogue for those that are asked for, until cancelled."""
        while True:
            loop_watch.report_waiting()
            await self._some.wait()
            self._some = anyio.Event()
            while self._asked:
                loop_watch.report_alive()
                request_id, identity = self._asked.popitem()
                try:
                    self._answers[request_id] = await self._catalogue.get(identity)
                except errors.CatalogueUnavailable as error:
                    self._answers[request_id] = error
            while len(self._answers) > ANSWERS_MAX:
                del self._answers[next(iter(self._answers))]

    async def serve(self, principal: str, request: control_pb2.ResurrectSession) -> control_pb2.SessionReply | None:
        """The session as it stands after that; None while the catalogue has not answered."""
        if principal not in self._operators:
            raise errors.OperatorsOnly(principal=principal, what="a session that Redis forgot")
        if request.request_id not in self._answers:
            self._asked[request.request_id] = request.identity
            self._some.set()
            return None
        row = self._answers.pop(request.request_id)
        if isinstance(row, errors.CatalogueUnavailable):
            raise row
        if row is not None:
            await self._publish(row, by=principal)
        known = await self._sessions.read(request.identity)
        if known is None:
            raise errors.ForgottenSession(identity=request.identity)
        return session_service.reply_of(known)

    async def _publish(self, row: CatalogueRow, *, by: str) -> None:
        """Nothing changes where Redis knows as much, or of a later session of that identity."""
        known = await self._sessions.read(row.identity)
        if known is not None and known.ref.stream_session_id != row.stream_session_id:
            return
        if not row.state.is_closed:
            is_new = known is None and await self._restoring.restore_session(row)
            if is_new:
                await self._restoring.mark_loss(row)
        elif known is None:
            is_new = await self._put_closed(row)
        else:
            is_new = False
            if not known.state.is_closed or known.version < row.version:
                await self._restoring.close_as(known, row)
        if is_new:
            facts = {"stream": row.stream, "id": row.stream_session_id, "state": row.state.value, "by": by}
            self._log.info("session_resurrected", **facts)

    async def _put_closed(self, row: CatalogueRow) -> bool:
        """The catalogue has it: from its first moment on it may expire. Whether it was not there."""
        position = row.position if await self._is_in_stream(row) else entry_ids.MIN
        call = resurrect_closed(
            self._keys, row, position=position, now_ms=self._clock(), ttl_s=self._config.session.closed_ttl_s
        )
        return bool(await self._link.do(*call))

    async def _is_in_stream(self, row: CatalogueRow) -> bool:
        """Whether its stream goes on from where it was: one that was made anew begins with lower ids."""
        return not entry_ids.is_after(row.position, await self._sessions.last_entry_id(row.stream))


def resurrect_closed(
    names: keys.Keys, row: CatalogueRow, *, position: str, now_ms: int, ttl_s: int
) -> commands.Command:
    """A session that is closed and in the catalogue, with all that Redis once knew of it but for its units."""
    totals = row.totals.words()
    ours = {
        keys.STATE: row.state.value,
        keys.PRINCIPAL: row.principal,
        keys.VERSION: row.version,
        keys.OPENED_MS: row.opened_ms,
        keys.TOTALS: " ".join(totals),
        keys.SAFE: row.version,
    }
    readers = (row.stream_session_id, row.stream, position, row.json, now_ms)
    pairs = (word for pair in ours.items() for word in pair)
    return commands.session_call("rtas_resurrect_1", names, row.identity, *readers, *totals[-2:], ttl_s, *pairs)
