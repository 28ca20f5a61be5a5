"""Publishes sessions again that Redis does not have any more, from the catalogue, where an operator asks for one."""

from collections.abc import Awaitable, Callable, Sequence

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.diagnostics import log
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.recovery.session_restorer import SessionRestorer
from rta_supervisor.session import config_bindings
from rta_supervisor.session import service as session_service
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys
from rta_wire.pb import control_pb2


class Resurrection:
    """Serves requests for sessions that Redis does not have any more. Repeating one changes nothing."""

    def __init__(
        self,
        link: Link,
        sessions: SessionStore,
        restorer: SessionRestorer,
        catalogue: Catalogue,
        config: settings.Settings,
        *,
        restore_configs: Callable[[Sequence[str]], Awaitable[object]],
        clock: Clock = now_ms,
    ) -> None:
        """`restore_configs`: called with the configurations that a session is bound to which is published again."""
        self._link = link
        self._sessions = sessions
        self._restorer = restorer
        self._catalogue = catalogue
        self._keys = config.keys
        self._config = config
        self._operators = config.control.operators
        self._restore_configs = restore_configs
        self._clock = clock
        self._log = log.get()

    async def serve(self, entry: ControlEntry, request: control_pb2.ResurrectSession) -> control_pb2.SessionReply:
        """Publish a session again, and give it as it stands then."""
        if entry.principal not in self._operators:
            raise errors.OperatorsOnly(principal=entry.principal, what="a session that Redis forgot")
        row = await self._catalogue.get(request.identity)
        if row is not None:
            await self._publish(row, by=entry.principal)
            await self._restore_configs(config_bindings.identifiers_in(row.json))
        record = await self._sessions.read(request.identity)
        if record is None:
            raise errors.ForgottenSession(identity=request.identity)
        return session_service.reply_of(record)

    async def _publish(self, row: CatalogueRow, *, by: str) -> None:
        """Bring Redis up to a row of the catalogue. Nothing changes where it has as much, or a later session of that
        identity."""
        record = await self._sessions.read(row.identity)
        if record is not None and record.ref.stream_session_id != row.stream_session_id:
            return
        if not row.state.is_closed:
            is_new = record is None and await self._restorer.restore(row)
            if is_new:
                await self._restorer.mark_loss(row)
        elif record is None:
            is_new = await self._write_closed(row)
        else:
            is_new = False
            if not record.state.is_closed or record.version < row.version:
                await self._restorer.close_as_in_catalogue(record, row)
        if is_new:
            facts = {"stream": row.stream, "id": row.stream_session_id, "state": row.state.value, "by": by}
            self._log.info("session_resurrected", **facts)

    async def _write_closed(self, row: CatalogueRow) -> bool:
        """Write a closed session, which may expire at once because the catalogue has it. Whether it was not there."""
        position = row.position if await self._is_in_stream(row) else entry_ids.MIN
        call = resurrect_closed(
            self._keys, row, position=position, now_ms=self._clock(), ttl_s=self._config.session.closed_ttl_s
        )
        return bool(await self._link.do(*call))

    async def _is_in_stream(self, row: CatalogueRow) -> bool:
        """Whether the stream is the one that the session was written to: one that was made anew ends at a lower id."""
        return not entry_ids.is_after(row.position, await self._sessions.last_entry_id(row.stream))


def resurrect_closed(
    names: keys.Keys, row: CatalogueRow, *, position: str, now_ms: int, ttl_s: int
) -> commands.Command:
    """Write a closed session that the catalogue has, but for the totals of its units, if it is not there."""
    totals = row.totals.to_strings()
    state_fields: dict[str, commands.Argument] = {
        keys.STATE: row.state.value,
        keys.PRINCIPAL: row.principal,
        keys.VERSION: row.version,
        keys.OPENED_MS: row.opened_ms,
        keys.TOTALS: " ".join(totals),
        keys.SAFE: row.version,
    }
    hash_fields: list[commands.Argument] = [row.stream_session_id, row.stream, position, row.json, now_ms, *totals[-2:]]
    arguments = (argument for field in state_fields.items() for argument in field)
    return ("FCALL", "rtas_resurrect_2", 2, *keys.session_hashes(names, row.identity), *hash_fields, ttl_s, *arguments)
