"""The supervisor in three acts: startup, the loops, shutdown."""

import contextlib
import gc
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

import anyio
import redis.exceptions

from rta_supervisor.archive.record import ArchiveRecorder
from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.sync import CatalogueSync
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.compaction.compactor import Compactor
from rta_supervisor.control.consumer import ConsumerCallbacks, ControlConsumer
from rta_supervisor.control.priority import Priority
from rta_supervisor.control.requests import RequestHandler
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.diagnostics.loop_watch import LoopWatch
from rta_supervisor.http import server as http_server
from rta_supervisor.nodes import leases, periodic
from rta_supervisor.nodes.leases import Leases
from rta_supervisor.nodes.registry import Node
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.nodes.time_sync import TimeSync
from rta_supervisor.observe import health as observe_health
from rta_supervisor.observe import prometheus
from rta_supervisor.observe.health import Health
from rta_supervisor.observe.history import HistoryRecorder
from rta_supervisor.observe.sampler import Sampler
from rta_supervisor.recovery.loss_detector import LossDetector
from rta_supervisor.recovery.restore import Recovery
from rta_supervisor.recovery.resurrect import Resurrection
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.retention.trimmer import Trimmer
from rta_supervisor.runtime import systemd
from rta_supervisor.runtime.systemd import SystemdNotifier
from rta_supervisor.session.refresher import Refresher
from rta_supervisor.session.reports import ReportHandler
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.silence_watchdog import SilenceWatchdog
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import redaction, reload, settings
from rta_supervisor.transport.failures import RETRIABLE_ERRORS, TemporaryRefusal
from rta_supervisor.transport.link import Link
from rta_supervisor.web import app
from rta_supervisor.web.context import WebContext
from rta_supervisor.webhooks.deliverer import Webhooks
from rta_wire import __version__, errors, redis_url

GATHER_REPORTS: Final = 5
JOIN_PAUSE_S: Final = 0.5
STOP_S: Final = 3.0
"""For the last words to Redis, after the lanes are done."""

STARTING_S: Final = 30.0
"""For which systemd is asked to wait on, each time that a start has to make room first."""

ROOM_PAUSE_S: Final = 0.5

COLLECT_AFTER: Final = (100_000, 50, 100)
"""For Python's collector of cycles. We make next to none, and by default it looks at the messages of a flood several
times and at all sessions every few seconds: that took a fifth of our time and held up requests."""

CATALOGUE_SYNC_DUTY: Final = "follow"
"""The duty of those who share a catalogue: one looks for what nobody has written to it."""


class Daemon:
    """Everything that runs, wired together."""

    def __init__(self, config: settings.Settings, load: Callable[[], settings.Settings] | None = None) -> None:
        """`load`: the settings as they are now, for who asks us to read them again."""
        self._config = config
        self._load = load
        self._link = Link(config.redis)
        self._timekeeper = TimeSync(self._link, now_ms, config.node.beat_s)
        self._node = Node(self._link, config)
        self._catalogue = factory.create(config)
        duties = (*leases.DUTIES, CATALOGUE_SYNC_DUTY) if self._catalogue.is_shared else leases.DUTIES
        self._leases = Leases(self._link, config, self._node.id, duties)
        self._sessions = SessionStore(self._link, config)
        self._archivist = CatalogueWriter(self._link, self._catalogue, config)
        self._webhooks = Webhooks(self._link, config)
        self._life = SessionService(
            self._link, config, self._sessions, self._archivist.mark_changed, outbox=self._webhooks.outbox
        )
        self._refresher = Refresher(self._sessions, self._life, config, self._archivist.record_progress)
        self._request_lane = ControlConsumer(
            "requests", config.keys.requests, self._link, config, principals=config.control.requesters
        )
        # Reports of one unit are joined: the more at once, the less they cost. Requests don't wait for each other.
        self._report_lane = ControlConsumer(
            "reports", config.keys.reports, self._link, config, gather_batches=GATHER_REPORTS
        )
        precedence = Priority()
        self._marker = ArchiveRecorder(self._link, config, self._sessions, self._catalogue)
        self._watchdog = SilenceWatchdog(
            self._sessions,
            self._life,
            config,
            lambda: max(self._report_lane.listening_since_ms, now_ms.steady_since_ms),
        )
        self._trimmer = Trimmer(self._link, config)
        self._days = DayIndex(self._link, config)
        self._compactor = Compactor(self._link, self._sessions, self._catalogue, config)
        self._recovery = Recovery(
            *(self._link, self._sessions, self._life, self._catalogue),
            is_catalogue_required=config.catalogue.required,
            prepare=(
                *(
                    self._request_lane.create_groups,
                    self._report_lane.create_groups,
                    self._node.register,
                    self._leases.renew,
                ),
                # What only we remember of the time before a loss, before it is asked what was lost.
                self._archivist.flush_progress,
                lambda: self._days.restore(self._catalogue),
            ),
            on_outage=self._report_lane.note_outage,
        )
        self._resurrection = Resurrection(self._link, self._sessions, self._recovery, self._catalogue, config)
        self._requests = RequestHandler(
            *(self._link, self._request_lane, self._life, config, precedence),
            resurrection=self._resurrection,
            marker=self._marker,
        )
        self._follower = CatalogueSync(
            *(self._link, self._sessions, self._catalogue, config),
            on_stale=self._archivist.mark_changed,
            close_again=self._recovery.close_again,
        )
        self._reports = ReportHandler(
            self._report_lane,
            self._sessions,
            self._refresher,
            config,
            precedence,
            recent_reports=self._recovery.recent_reports,
        )
        self._progress = LoopWatch()
        self._health = Health(config.redis, self._progress.stuck)
        self._survey = Sampler(self._link, config)
        self._recorder = HistoryRecorder(self._link, config.keys, counters.counts)
        self._pulse = SystemdNotifier(self._progress, self._describe)
        self._lanes_scope: anyio.CancelScope | None = None
        self._stopping = anyio.Event()
        self._joining: anyio.CancelScope | None = None
        self._log = log.get()

    async def run(self) -> None:
        """From start to SIGTERM or SIGINT. A task that crashes ends the daemon; systemd starts it again."""
        log.bind(node=self._node.id)
        gc.set_threshold(*COLLECT_AFTER)
        try:
            async with anyio.create_task_group() as sides:
                async with self._site():
                    sides.start_soon(self._watch_signals, name="signals")
                    sides.start_soon(self._health.run, name="health")
                    sides.start_soon(self._pulse.run, name="pulse")
                    sides.start_soon(self._pulse.measure_delay, name="loop_delay")
                    if await self._join():
                        await self._work()
                log.log_suppressed(is_last=True)
                self._log.info("supervisor_stopped")
                sides.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise self._reason(group) from group
        finally:
            await self._catalogue.close()
            await self._link.close()

    @contextlib.asynccontextmanager
    async def _site(self) -> AsyncIterator[None]:
        """The HTTP server, from before Redis is asked for until everything else has ended."""
        if not self._config.http.host:
            yield
            return
        closing = anyio.Event()
        registry = prometheus.build_registry(self._node.id, counters.counts, self._survey, self._health, self._progress)
        parts = WebContext(
            *(self._config, self._node.id, self._link, self._sessions, self._catalogue),
            *(self._health, registry, closing),
        )
        with http_server.listen(self._config.http) as listener:
            site = http_server.Server(app.build(parts), listener, closing)
            self._log.info("http_listening", address=site.address)
            async with anyio.create_task_group() as serving:
                serving.start_soon(site.run, name="http")
                yield
                await site.stop()

    async def _join(self) -> bool:
        """Wait for Redis and make it whole. False: told to stop before it came.

        systemd hears that we are ready once we know whether Redis is there: an outage is no reason to fail a start.
        """
        with anyio.CancelScope() as self._joining:
            while True:
                try:
                    await self._link.connect()
                    await self._timekeeper.sync()
                    await self._prepare()
                    break
                except (errors.RedisUnreachable, errors.RedisFull, *RETRIABLE_ERRORS) as error:
                    self._health.set_not_ready(f"waiting for Redis: {error}")
                    self._link.outage_log.log_failure(error)
                    systemd.notify(f"READY=1\nSTATUS=Waiting for Redis: {error}")
                    await anyio.sleep(JOIN_PAUSE_S)
            self._health.set_not_ready("")
            self._log.info(
                "supervisor_started",
                version=__version__,
                redis=redis_url.redact(self._config.redis.url),
                catalogue=self._catalogue.name,
            )
            systemd.notify(f"READY=1\nSTATUS={self._describe()}")
            return True
        return False

    async def _work(self) -> None:
        try:
            await self._loop()
        finally:
            with anyio.CancelScope(shield=True):
                await self._stop()

    async def _prepare(self) -> None:
        """Whatever has to be in Redis. One that is full and was ours before gets room first: nobody else makes any."""
        while True:
            try:
                await self._recovery.restore(is_start=True)
            except TemporaryRefusal as error:
                if (
                    not isinstance(self._link.to_rta_error(error), errors.RedisFull)
                    or not await self._link.has_functions()
                ):
                    raise
                self._link.outage_log.log_failure(error)
                systemd.notify(f"EXTEND_TIMEOUT_USEC={int(STARTING_S * 1e6)}")
                await self._trimmer.sweep()
                await anyio.sleep(ROOM_PAUSE_S)
            else:
                return

    async def _loop(self) -> None:
        duties: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "node": self._node.run,
            "leases": self._leases.run,
            "clock": self._timekeeper.run,
            "beat": self._watch_redis,
            "refresh": self._refresher.run,
            "idle_refresh": lambda: self._refresher.run_idle(self._leases.of("idle_refresh")),
            "watchdog": lambda: self._watchdog.run(self._leases.of("watchdog")),
            "archivist": self._archivist.run,
            "follower": lambda: self._follower.run(
                self._leases.of(CATALOGUE_SYNC_DUTY) if self._catalogue.is_shared else periodic.UNLEASED
            ),
            "resurrection": self._resurrection.run,
            "trim": lambda: self._trimmer.run(self._leases.of("trim")),
            "compact": lambda: self._compactor.run(self._leases.of("compact")),
            "survey": self._survey.run,
            **self._webhooks.duties(),
        }
        if self._config.metrics.slots:
            duties["slots"] = self._recorder.run
        hooks = ConsumerCallbacks(on_data_loss=self._recovery.recover, on_gap=self._refresher.recount)
        async with anyio.create_task_group() as background:
            for name, duty in duties.items():
                background.start_soon(self._progress.watched(name, duty), name=name)
            async with anyio.create_task_group() as lanes:
                self._lanes_scope = lanes.cancel_scope
                for lane, handler in (
                    (self._request_lane, self._requests),
                    (self._report_lane, self._reports),
                ):
                    run = self._progress.watched(lane.name, lane.run)
                    lanes.start_soon(run, self._node.id, handler, hooks, self._stopping, name=lane.name)
            if lanes.cancel_scope.cancelled_caught:
                self._log.error("drain_incomplete", drain_s=self._config.node.drain_s)
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
        return first if isinstance(first, errors.RtaError) else self._link.to_rta_error(first)

    async def _watch_redis(self) -> None:
        await self._recovery.run(LossDetector(self._link, self._config.keys, self._node.id), self._config.node.beat_s)

    async def _watch_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                # Somebody who closes a terminal does not mean "read the file again".
                if number == signal.SIGHUP and not sys.stdout.isatty():
                    self._reload()
                else:
                    self._begin_stop(signal.Signals(number))

    def _begin_stop(self, number: signal.Signals) -> None:
        """The lanes finish what they began, within a time. Who asks twice does not want to wait."""
        is_impatient = self._stopping.is_set()
        self._log.info("supervisor_stopping", signal=number.name)
        systemd.notify("STOPPING=1\nSTATUS=Finishing what was begun")
        self._health.set_not_ready("stopping")
        self._stopping.set()
        if self._joining is not None:
            self._joining.cancel()
        if self._lanes_scope is not None:
            patience_s = 0.0 if is_impatient else self._config.node.drain_s
            self._lanes_scope.deadline = anyio.current_time() + patience_s

    def _reload(self) -> None:
        """Take what can be taken of the settings as they are now; a mistake in them changes nothing."""
        systemd.notify(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
        try:
            if self._load is not None:
                self._take(reload.compare(self._config, self._load()))
        except errors.RtaError as error:
            self._log.error("configuration_refused", error=str(error))
        systemd.notify(f"READY=1\nSTATUS={self._describe()}")

    def _take(self, change: reload.SettingsChange) -> None:
        reload.apply(self._config, change)
        log.configure(self._config.log, redaction.secrets(self._config))
        self._log.info("configuration_reloaded", changed=change.applied)
        if change.needs_restart:
            self._log.warning("settings_need_restart", settings=change.needs_restart)

    def _describe(self) -> str:
        """One line for `systemctl status`."""
        verdict = self._health.readiness()
        if not verdict.is_ready:
            return verdict.reason[0].upper() + verdict.reason[1:]
        return observe_health.status_line(self._survey.latest, counters.counts)

    async def _stop(self) -> None:
        with anyio.move_on_after(STOP_S) as scope:
            try:
                await self._refresher.flush()
                await self._archivist.flush()
                if self._config.metrics.slots:
                    await self._recorder.flush()
                await self._leases.release()
                await self._node.unregister()
            except RETRIABLE_ERRORS as error:
                self._link.outage_log.log_failure(error)
        if scope.cancelled_caught:
            self._log.error("stop_incomplete", stop_s=STOP_S)
