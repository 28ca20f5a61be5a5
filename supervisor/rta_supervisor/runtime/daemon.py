"""Startup, main loop and shutdown of a supervisor. Its parts are built by `wiring`."""

import contextlib
import gc
import signal
import sys
from collections.abc import AsyncIterator, Callable
from typing import Final

import anyio
import redis.exceptions

from rta_supervisor.control.control_streams import ConsumerCallbacks
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.http import server
from rta_supervisor.observe import health as observe_health
from rta_supervisor.observe import prometheus
from rta_supervisor.runtime import systemd, wiring
from rta_supervisor.runtime.settings_reload import reload_settings
from rta_supervisor.settings import settings
from rta_supervisor.transport import failures, function_loader, server_check
from rta_supervisor.transport.failures import RETRIABLE_ERRORS, TemporaryRefusal
from rta_supervisor.web import app
from rta_supervisor.web.context import WebContext
from rta_wire import __version__, errors, redis_url

CONNECT_PAUSE_S: Final = 0.5
STOP_S: Final = 3.0
"""For the last writes to Redis, after the control streams are drained."""

STARTING_S: Final = 30.0
"""How much longer systemd is asked to wait, each time that a start has to make room in a full Redis first."""

ROOM_PAUSE_S: Final = 0.5

GC_THRESHOLDS: Final = (100_000, 50, 100)
"""For Python's collector of cycles. We make next to none, and by default it visits the messages of a flood several
times and all sessions every few seconds: that took a fifth of our time and delayed requests."""


class Daemon:
    """Starts the parts, runs their loops in one task group, and stops them in order."""

    def __init__(self, config: settings.Settings, load: Callable[[], settings.Settings] | None = None) -> None:
        """`load`: reads the settings as they are now, for a reload."""
        self._config = config
        self._load = load
        self._parts = wiring.build(config)
        self._link = self._parts.link
        self._health = self._parts.observers.health
        self._notifier = systemd.SystemdNotifier(self._parts.observers.loops, self._describe)
        self._consumers_scope: anyio.CancelScope | None = None
        self._stopping = anyio.Event()
        self._connecting: anyio.CancelScope | None = None
        self._log = log.get()

    async def run(self) -> None:
        """From start to SIGTERM or SIGINT. A task that crashes ends the daemon; systemd starts it again."""
        log.bind(node=self._parts.nodes.node.id)
        gc.set_threshold(*GC_THRESHOLDS)
        try:
            async with anyio.create_task_group() as sides:
                async with self._http_server():
                    sides.start_soon(self._watch_signals, name="signals")
                    sides.start_soon(self._health.run, name="health")
                    sides.start_soon(self._notifier.run, name="pulse")
                    sides.start_soon(self._notifier.measure_delay, name="loop_delay")
                    if await self._connect():
                        await self._work()
                log.log_suppressed(is_last=True)
                self._log.info("supervisor_stopped")
                sides.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise self._reason(group) from group
        finally:
            await self._parts.catalogue.reader.close()
            await self._parts.catalogue.repository.close()
            await self._link.close()

    @contextlib.asynccontextmanager
    async def _http_server(self) -> AsyncIterator[None]:
        """Run the HTTP server within the block, from before Redis is connected until everything else has ended."""
        if not self._config.http.host:
            yield
            return
        closing = anyio.Event()
        node_id = self._parts.nodes.node.id
        observers = self._parts.observers
        registry = prometheus.build_registry(node_id, counters.counts, observers.sampler, self._health, observers.loops)
        context = WebContext(
            *(self._config, node_id, self._link, self._parts.sessions.store, self._parts.catalogue.repository),
            *(self._health, registry, closing),
        )
        with server.listen(self._config.http) as listener:
            http_server = server.Server(app.build(context), listener, closing, self._config.http)
            self._log.info("http_listening", address=http_server.address)
            async with anyio.create_task_group() as serving:
                serving.start_soon(http_server.run, name="http")
                yield
                await http_server.stop()

    async def _connect(self) -> bool:
        """Wait for Redis and restore what has to be there. Whether that was done before the daemon was stopped.

        systemd gets READY once it is known whether Redis is there: an outage is no reason to fail a start.
        """
        with anyio.CancelScope() as self._connecting:
            while True:
                try:
                    await server_check.connect(self._link)
                    await self._parts.nodes.time_sync.sync()
                    await self._restore()
                    break
                except (errors.RedisUnreachable, errors.RedisFull, *RETRIABLE_ERRORS) as error:
                    self._health.set_not_ready(f"waiting for Redis: {error}")
                    self._link.outage_log.log_failure(error)
                    systemd.notify(f"READY=1\nSTATUS=Waiting for Redis: {error}")
                    await anyio.sleep(CONNECT_PAUSE_S)
            self._health.set_ready()
            self._log.info(
                "supervisor_started",
                version=__version__,
                redis=redis_url.redact(self._config.redis.url),
                catalogue=self._parts.catalogue.repository.name,
            )
            systemd.notify(f"READY=1\nSTATUS={self._describe()}")
            return True
        return False

    async def _restore(self) -> None:
        """Restore what has to be in Redis. Where it is full and has our functions, trim first: only we make room."""
        while True:
            try:
                await self._parts.recovery.recovery.restore(is_start=True)
            except TemporaryRefusal as error:
                is_full = isinstance(failures.to_rta_error(self._config.redis.url, error), errors.RedisFull)
                if not is_full or not await function_loader.are_loaded(self._link):
                    raise
                self._link.outage_log.log_failure(error)
                systemd.notify(f"EXTEND_TIMEOUT_USEC={int(STARTING_S * 1e6)}")
                await self._parts.retention.trimmer.sweep()
                await anyio.sleep(ROOM_PAUSE_S)
            else:
                return

    async def _work(self) -> None:
        """Run all loops, and stop in good order however they end."""
        try:
            await self._run_loops()
        finally:
            with anyio.CancelScope(shield=True):
                await self._stop()

    async def _run_loops(self) -> None:
        """Run all duties, and the consumers of control streams until they are drained."""
        parts = self._parts
        watched = parts.observers.loops.watched
        callbacks = ConsumerCallbacks(
            on_data_loss=parts.recovery.recovery.restore_after_loss, on_gap=parts.sessions.refresher.note_gap
        )
        async with anyio.create_task_group() as background:
            for name, duty in wiring.duties(parts, self._config).items():
                background.start_soon(watched(name, duty), name=name)
            async with anyio.create_task_group() as consumers:
                self._consumers_scope = consumers.cancel_scope
                for name, run, handler in (
                    ("requests", parts.control.requests.run, parts.handlers.requests),
                    ("reports", parts.control.reports.run, parts.handlers.reports),
                ):
                    consumers.start_soon(watched(name, run), handler, callbacks, self._stopping, name=name)
            if consumers.cancel_scope.cancelled_caught:
                self._log.error("drain_incomplete", drain_s=self._config.node.drain_s)
            # The control streams are drained: nothing new comes, and what was folded is published by `_stop`.
            background.cancel_scope.cancel()

    def _reason(self, group: BaseExceptionGroup[BaseException]) -> BaseException:
        """The error to end with: one that a person can act on where Redis refuses what we ask, else the whole group."""
        refusals, _ = group.split((errors.RtaError, redis.exceptions.RedisError))
        if refusals is None:
            return group
        first: BaseException = refusals
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return first if isinstance(first, errors.RtaError) else failures.to_rta_error(self._config.redis.url, first)

    async def _watch_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                # A terminal that is closed sends SIGHUP too: that is no request to reload.
                if number == signal.SIGHUP and not sys.stdout.isatty():
                    reload_settings(self._config, self._load, self._describe)
                else:
                    self._begin_stop(signal.Signals(number))

    def _begin_stop(self, number: signal.Signals) -> None:
        """Let the consumers finish what they began, within `node.drain_s`; at a second signal, stop them at once."""
        is_second_signal = self._stopping.is_set()
        self._log.info("supervisor_stopping", signal=number.name)
        systemd.notify("STOPPING=1\nSTATUS=Finishing what was begun")
        self._health.set_not_ready("stopping")
        self._stopping.set()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._consumers_scope is not None:
            drain_s = 0.0 if is_second_signal else self._config.node.drain_s
            self._consumers_scope.deadline = anyio.current_time() + drain_s

    def _describe(self) -> str:
        """One line for `systemctl status`."""
        readiness = self._health.readiness()
        if not readiness.is_ready:
            return readiness.reason[0].upper() + readiness.reason[1:]
        return observe_health.status_line(self._parts.observers.sampler.latest, counters.counts)

    async def _stop(self) -> None:
        """Write what is waiting, and leave leases and duties to others."""
        parts = self._parts
        with anyio.move_on_after(STOP_S) as scope:
            try:
                await parts.sessions.refresher.flush()
                await parts.catalogue.writer.flush()
                if self._config.metrics.slots:
                    await parts.observers.history.flush()
                await parts.nodes.leases.release()
                await parts.nodes.node.unregister()
            except RETRIABLE_ERRORS as error:
                self._link.outage_log.log_failure(error)
        if scope.cancelled_caught:
            self._log.error("stop_incomplete", stop_s=STOP_S)
