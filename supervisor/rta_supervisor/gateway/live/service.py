"""Serves all WebSockets of a gateway: accepts upgrades, brings each viewer together with the one reader of its stream,
and looks after both.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import anyio
import anyio.abc
import h11
from websockets.frames import CloseCode
from websockets.server import ServerProtocol

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.access.control import AccessControl, Refusal
from rta_supervisor.gateway.archived.entry_store import ArchivedEntries
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live import handshake, watched_session
from rta_supervisor.gateway.live.hub_table import HubTable
from rta_supervisor.gateway.live.serving import OUTAGE_PAUSE_S, ViewerServing
from rta_supervisor.gateway.live.stream_hub import UNREADABLE_ERRORS
from rta_supervisor.gateway.live.viewer import Viewer
from rta_supervisor.gateway.live.viewer_table import ViewerTable
from rta_supervisor.http.protocol import LimitedProtocol
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import OUTAGE_ERRORS, REFUSAL_ERRORS
from rta_supervisor.transport.link import Link

SWEEP_S: Final = 3.0


class LiveService:
    """All viewers and all readers of one gateway."""

    def __init__(
        self, config: settings.Settings, access: AccessControl, counts: GatewayCounts, catalogue: Catalogue
    ) -> None:
        self.counts = counts
        self.viewers = ViewerTable(config, access)
        self._config = config
        self._access = access
        # Of its own: reads that wait for entries don't take connections from those that answer requests.
        self._link = Link(config.redis)
        archived = ArchivedEntries(catalogue, config)
        self._hubs = HubTable(self._link, config.keys, counts, archived)
        self._serving = ViewerServing(self._link, config, counts, archived)
        self._tasks: anyio.abc.TaskGroup | None = None
        self._is_stopping = False
        self._log = log.get()

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            async with anyio.create_task_group() as self._tasks:
                while True:
                    await anyio.sleep(min(SWEEP_S, self._config.gateway.stuck_s / 4))
                    self.viewers.sweep()
                    await self._hubs.sweep()
        finally:
            with anyio.CancelScope(shield=True):
                await self._link.close()

    async def stop(self, within_s: float) -> None:
        """Tell all viewers to go, and wait for those that answer."""
        self._is_stopping = True
        for viewer in self.viewers:
            viewer.close(CloseCode.GOING_AWAY, left="stopping")
        with anyio.move_on_after(within_s):
            while len(self.viewers):  # noqa: ASYNC110 - at the end, and for a moment
                await anyio.sleep(0.02)
        for viewer in self.viewers:
            viewer.abort("stopping")

    def upgrade(self, connection: LimitedProtocol, event: h11.Request, rest: bytes) -> asyncio.Protocol | None:
        """Accept or refuse a request for a WebSocket. Gives the viewer that the connection has become."""
        decision = handshake.decide(self._access, connection, event)
        refusal = decision if isinstance(decision, Refusal) else self._limit(decision, connection.address)
        if refusal is None and isinstance(decision, handshake.Upgrade):
            websocket = handshake.accept(connection, event)
            if isinstance(websocket, ServerProtocol):
                viewer = Viewer(self, connection.transport, websocket, decision.identity, decision.grant)
                viewer.address = connection.address
                self._welcome(viewer, websocket, rest)
                return viewer
            refusal = websocket
        assert refusal is not None
        self.counts.refused[str(refusal.status)] += 1
        handshake.refuse(connection, refusal)
        return None

    def _limit(self, upgrade: handshake.Upgrade, address: str) -> Refusal | None:
        if self._is_stopping:
            return Refusal(503, "The gateway is about to end. Try again in a moment.")
        refusal = self.viewers.limit(upgrade.grant, address)
        if refusal is not None:
            fields = {"token": upgrade.grant.name, "address": address, "reason": refusal.sentence}
            self._log.warning("gateway_viewers_limited", **fields)
        return refusal

    def _welcome(self, viewer: Viewer, websocket: ServerProtocol, rest: bytes) -> None:
        assert self._tasks is not None
        self.viewers.add(viewer)
        self.counts.viewers_joined += 1
        for data in websocket.data_to_send():
            viewer.send(data)
        token, address = viewer.grant.name, viewer.address
        self._log.debug("gateway_viewer_joined", session=viewer.identity, token=token, address=address)
        viewer.is_working = True
        self._tasks.start_soon(self._guarded, self._join, viewer, name="join")
        if rest:
            asyncio.get_running_loop().call_soon(viewer.data_received, rest)

    # What viewers call.

    def work_for(self, viewer: Viewer) -> None:
        if not viewer.is_working and self._tasks is not None:
            viewer.is_working = True
            self._tasks.start_soon(self._guarded, self._work, viewer, name="viewer")

    async def _guarded(self, work: Callable[[Viewer], Awaitable[None]], viewer: Viewer) -> None:
        """Work for one viewer. What goes wrong with it is no reason to let all others go."""
        try:
            await work(viewer)
        except Exception as error:  # noqa: BLE001 - the outermost frame of what is done for a viewer
            self._log.exception("gateway_viewer_failed", session=viewer.identity, error=str(error))
            viewer.close(CloseCode.INTERNAL_ERROR, "A fault of the gateway.", left="failed")

    def forget(self, viewer: Viewer, reason: str) -> None:
        if self.viewers.remove(viewer):
            if viewer.feed is not None:
                viewer.feed.members.pop(viewer, None)
            self.counts.viewers_left[reason] += 1
            token = viewer.grant.name
            self._log.debug("gateway_viewer_left", session=viewer.identity, token=token, reason=reason)

    async def _join(self, viewer: Viewer) -> None:
        """Find the session of a viewer and the reader of its stream. One that it may not see does not exist for it."""
        assert self._tasks is not None
        while viewer.feed is None and not viewer.is_over:
            try:
                record = await watched_session.read(self._link, self._config.keys, viewer.identity)
                if record is None or not viewer.grant.may_see(record.stream):
                    viewer.close(CloseCode.NORMAL_CLOSURE, left="no_session")
                else:
                    with self._hubs.joining(record.stream, self._tasks) as hub:
                        await self._serving.join(viewer, hub)
            except (*OUTAGE_ERRORS, *REFUSAL_ERRORS) as error:
                self._link.outage_log.log_failure(error)
                await anyio.sleep(OUTAGE_PAUSE_S)
            except UNREADABLE_ERRORS as error:
                self._refuse_service(viewer, error)
        if viewer.feed is not None and viewer.hub is not None:
            if not viewer.feed.is_primed:
                viewer.feed.is_primed = True
                self._tasks.start_soon(self._serving.prime, viewer.hub, viewer.feed, name="prime")
            await self._work(viewer)

    async def _work(self, viewer: Viewer) -> None:
        try:
            await self._serving.serve(viewer)
        except UNREADABLE_ERRORS as error:
            self._refuse_service(viewer, error)
        viewer.is_working = False
        viewer.close_if_done()

    def _refuse_service(self, viewer: Viewer, error: Exception) -> None:
        self._log.error("gateway_session_unreadable", session=viewer.identity, error=str(error))
        viewer.close(CloseCode.INTERNAL_ERROR, "This session can't be read.", left="unreadable")

    def gauges(self) -> Iterator[tuple[str, str, float]]:
        """What is measured at a scrape."""
        yield from self.viewers.gauges()
        yield "rta_gateway_streams", "Streams that are followed.", len(self._hubs)
