"""The supervisor in three acts: startup, the loops, shutdown."""

import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

import anyio
import redis.exceptions

from rta_supervisor import log, notify, settings
from rta_supervisor.archivist import Archivist
from rta_supervisor.beat import Beat
from rta_supervisor.clock import Timekeeper
from rta_supervisor.follower import Follower
from rta_supervisor.handlers import Reports, Requests
from rta_supervisor.lanes import Hooks, Lane
from rta_supervisor.lease import Leases
from rta_supervisor.life import Life
from rta_supervisor.link import Link, Refused, Trouble
from rta_supervisor.node import Node
from rta_supervisor.precedence import Precedence
from rta_supervisor.recovery import Recovery
from rta_supervisor.refresh import Refresher
from rta_supervisor.sessions import Sessions, now_ms
from rta_supervisor.sqlite_catalogue import SqliteCatalogue
from rta_supervisor.trim import Trimmer
from rta_supervisor.watchdog import Watchdog
from rta_wire import __version__, access, errors

GATHER_REPORTS: Final = 5

STARTING_S: Final = 30.0
"""For which systemd is asked to wait on, each time that a start has to make room first."""

ROOM_PAUSE_S: Final = 0.5


class Daemon:
    """Everything that runs, wired together."""

    def __init__(self, config: settings.Settings) -> None:
        self._config = config
        self._link = Link(config.redis)
        self._timekeeper = Timekeeper(self._link, now_ms, config.node.beat_s)
        self._node = Node(self._link, config)
        self._leases = Leases(self._link, config, self._node.id)
        self._catalogue = SqliteCatalogue.configured(config)
        self._sessions = Sessions(self._link, config)
        self._archivist = Archivist(self._link, self._sessions, self._catalogue, config)
        self._life = Life(self._link, config, self._sessions, self._archivist.note)
        self._refresher = Refresher(self._sessions, self._life, config.session, self._archivist.note_progress)
        self._request_lane = Lane(
            "requests", config.keys.requests, self._link, config, principals=config.control.askers
        )
        # Reports of one unit are joined: the more at once, the less they cost. Requests don't wait for each other.
        self._report_lane = Lane("reports", config.keys.reports, self._link, config, gather_batches=GATHER_REPORTS)
        precedence = Precedence()
        self._requests = Requests(self._link, self._request_lane, self._life, config, precedence)
        self._watchdog = Watchdog(
            self._sessions,
            self._life,
            config.session,
            lambda: max(self._report_lane.listening_since_ms, now_ms.steady_since_ms),
        )
        self._trimmer = Trimmer(self._link, config)
        self._recovery = Recovery(
            *(self._link, self._sessions, self._life, self._catalogue),
            is_catalogue_required=config.catalogue.required,
            prepare=(
                *(self._request_lane.prepare, self._report_lane.prepare, self._node.register, self._leases.renew),
                # What only we remember of the time before a loss, before it is asked what was lost.
                self._archivist.flush_progress,
            ),
            on_trouble=self._report_lane.note_silence,
        )
        self._follower = Follower(
            *(self._link, self._sessions, self._catalogue, config),
            note=self._archivist.note,
            end_again=self._recovery.end_again,
        )
        self._reports = Reports(
            self._report_lane, self._sessions, self._refresher, config, precedence, witness=self._recovery.witness
        )
        self._stopping = anyio.Event()
        self._log = log.get(node=self._node.id)

    async def run(self) -> None:
        """From start to SIGTERM or SIGINT. A task that crashes ends the daemon; systemd starts it again."""
        try:
            await self._start()
            try:
                await self._loop()
            except BaseExceptionGroup as group:
                raise self._reason(group) from group
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop()
        finally:
            await self._catalogue.close()
            await self._link.close()

    async def _start(self) -> None:
        await self._link.connect()
        try:
            await self._timekeeper.look()
            await self._prepare()
        except Trouble as error:
            raise self._link.named(error) from error
        self._log.info(
            "supervisor_started",
            version=__version__,
            redis=access.safe(self._config.redis.url),
            catalogue=str(self._catalogue.path),
        )
        notify.send("READY=1")

    async def _prepare(self) -> None:
        """Whatever has to be in Redis. One that is full and was ours before gets room first: nobody else makes any."""
        while True:
            try:
                await self._recovery.make_whole(is_start=True)
            except Refused as error:
                if not isinstance(self._link.named(error), errors.RedisFull) or not await self._link.has_functions():
                    raise
                self._link.complaints.note(error)
                notify.send(f"EXTEND_TIMEOUT_USEC={int(STARTING_S * 1e6)}")
                await self._trimmer.sweep()
                await anyio.sleep(ROOM_PAUSE_S)
            else:
                return

    async def _loop(self) -> None:
        duties: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "signals": self._watch_signals,
            "node": self._node.run,
            "leases": self._leases.run,
            "clock": self._timekeeper.run,
            "beat": self._watch_redis,
            "refresh": self._refresher.run,
            "idle_refresh": lambda: self._refresher.run_idle(self._leases.of("idle_refresh")),
            "watchdog": lambda: self._watchdog.run(self._leases.of("watchdog")),
            "archivist": self._archivist.run,
            "follower": self._follower.run,
            "trim": lambda: self._trimmer.run(self._leases.of("trim")),
        }
        hooks = Hooks(on_data_loss=self._recovery.recover, on_gap=self._refresher.rescan)
        async with anyio.create_task_group() as background:
            for name, duty in duties.items():
                background.start_soon(duty, name=name)
            async with anyio.create_task_group() as lanes:
                for lane, handler in (
                    (self._request_lane, self._requests),
                    (self._report_lane, self._reports),
                ):
                    lanes.start_soon(lane.run, self._node.id, handler, hooks, self._stopping, name=lane.name)
            # The lanes are drained: nothing new comes, what they folded still has to be shown.
            background.cancel_scope.cancel()

    def _reason(self, group: BaseExceptionGroup[BaseException]) -> BaseException:
        """What a person can act on, where a task ended because Redis will never do what we ask."""
        refused, _ = group.split((errors.RtaError, redis.exceptions.RedisError))
        if refused is None:
            return group
        first: BaseException = refused
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return first if isinstance(first, errors.RtaError) else self._link.named(first)

    async def _watch_redis(self) -> None:
        await self._recovery.run(Beat(self._link, self._config.keys, self._node.id), self._config.node.beat_s)

    async def _watch_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                self._log.info("supervisor_stopping", signal=signal.Signals(number).name)
                notify.send("STOPPING=1")
                self._stopping.set()

    async def _stop(self) -> None:
        try:
            await self._refresher.flush()
            await self._archivist.flush()
            await self._leases.release()
            await self._node.unregister()
        except Trouble as error:
            self._link.complaints.note(error)
        self._log.info("supervisor_stopped")
