"""The supervisor in three acts: startup, the loops, shutdown."""

import signal

import anyio

from rta_supervisor import log, notify, settings
from rta_supervisor.handlers import Reports, Requests
from rta_supervisor.lanes import Lane
from rta_supervisor.link import Link, Outage, safe_url
from rta_supervisor.node import Node
from rta_supervisor.refresh import Refresher
from rta_supervisor.sessions import Sessions
from rta_wire import __version__


class Daemon:
    """Everything that runs, wired together."""

    def __init__(self, config: settings.Settings) -> None:
        self._config = config
        self._link = Link(config.redis)
        self._node = Node(self._link, config)
        self._sessions = Sessions(self._link, config)
        self._refresher = Refresher(self._sessions, config.session)
        self._request_lane = Lane("requests", config.keys.requests, self._link, config)
        self._report_lane = Lane("reports", config.keys.reports, self._link, config)
        self._requests = Requests(self._link, self._request_lane, self._sessions, config)
        self._reports = Reports(self._report_lane, self._sessions, self._refresher)
        self._stopping = anyio.Event()
        self._log = log.get(node=self._node.id)

    async def run(self) -> None:
        """From start to SIGTERM or SIGINT. A task that crashes ends the daemon; systemd starts it again."""
        try:
            await self._start()
            try:
                await self._loop()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop()
        finally:
            await self._link.close()

    async def _start(self) -> None:
        await self._link.connect()
        await self._link.load_functions()
        await self._request_lane.prepare()
        await self._report_lane.prepare()
        await self._node.register()
        self._log.info("supervisor_started", version=__version__, redis=safe_url(self._config.redis.url))
        notify.send("READY=1")

    async def _loop(self) -> None:
        async with anyio.create_task_group() as background:
            background.start_soon(self._watch_signals, name="signals")
            background.start_soon(self._node.run, name="node")
            background.start_soon(self._refresher.run, name="refresh")
            background.start_soon(self._refresher.run_idle, name="idle_refresh")
            async with anyio.create_task_group() as lanes:
                for lane, handle in (
                    (self._request_lane, self._requests.handle),
                    (self._report_lane, self._reports.handle),
                ):
                    lanes.start_soon(lane.run, self._node.id, handle, self._stopping, name=lane.name)
            # The lanes are drained: nothing new comes, what they folded still has to be shown.
            background.cancel_scope.cancel()

    async def _watch_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                self._log.info("supervisor_stopping", signal=signal.Signals(number).name)
                notify.send("STOPPING=1")
                self._stopping.set()

    async def _stop(self) -> None:
        try:
            await self._refresher.flush()
            await self._node.unregister()
        except Outage as error:
            self._log.warning("redis_unavailable", error=str(error))
        self._log.info("supervisor_stopped")
