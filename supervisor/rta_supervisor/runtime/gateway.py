"""The gateway as a process: starts, serves viewers until SIGTERM or SIGINT, and stops. Redis may come and go meanwhile.

Builds the parts of `rta_supervisor.gateway`, which do the work.
"""

import contextlib
import gc
import os
import signal
import ssl
import sys
from collections.abc import Callable
from typing import Final

import anyio

from rta_supervisor.catalogue import factory
from rta_supervisor.diagnostics import log
from rta_supervisor.diagnostics.loop_watch import LoopWatch
from rta_supervisor.gateway import app, metrics
from rta_supervisor.gateway.access.control import AccessControl
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live.service import LiveService
from rta_supervisor.gateway.parts import GatewayParts
from rta_supervisor.gateway.rest.data.index.index_builder import IndexBuilder
from rta_supervisor.http import server, tls
from rta_supervisor.observe.health import Health
from rta_supervisor.runtime import systemd
from rta_supervisor.runtime.daemon import GC_THRESHOLDS
from rta_supervisor.runtime.settings_reload import reload_settings
from rta_supervisor.settings import reload, settings
from rta_supervisor.transport.link import Link
from rta_wire import __version__, redis_url

STOP_S: Final = 2.0
"""How long viewers may take to answer that the gateway ends."""


NICENESS: Final = 10
"""The gateway gives way to the supervisor and to Redis: viewers may wait for some milliseconds, an open may not."""


class Gateway:
    """Serves viewers in one task group. A task that crashes ends the process; systemd starts it again."""

    def __init__(self, config: settings.Settings, load: Callable[[], settings.Settings] | None = None) -> None:
        """`load` reads the settings again, at SIGHUP."""
        self._config = config
        self._load = load
        self._loops = LoopWatch()
        self._parts = build(config, self._loops)
        self._live = self._parts.live
        self._tls = _tls(config.gateway)
        self._notifier = systemd.SystemdNotifier(self._loops, self._describe)
        self._stopping = anyio.Event()
        self._log = log.get()

    async def run(self) -> None:
        """From start to SIGTERM or SIGINT."""
        gc.set_threshold(*GC_THRESHOLDS)
        parts = self._parts
        try:
            with server.listen(self._config.gateway) as listener:
                http_server = server.Server(
                    *(app.build(parts), listener, parts.closing, self._config.gateway),
                    upgrade=self._live.upgrade,
                    tls=self._tls,
                    upgraded=lambda: len(self._live.viewers),
                )
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._watch_signals, name="signals")
                    tasks.start_soon(parts.health.run, name="health")
                    tasks.start_soon(self._notifier.run, name="pulse")
                    tasks.start_soon(self._notifier.measure_delay, name="loop_delay")
                    tasks.start_soon(self._live.run, name="live")
                    tasks.start_soon(parts.indexes.run, name="indexes")
                    tasks.start_soon(http_server.run, name="http")
                    self._start(http_server.address)
                    await self._stopping.wait()
                    await self._live.stop(STOP_S)
                    await http_server.stop()
                    log.log_suppressed(is_last=True)
                    self._log.info("gateway_stopped")
                    tasks.cancel_scope.cancel()
        finally:
            await parts.catalogue.close()
            await parts.link.close()

    def _start(self, address: str) -> None:
        self._parts.health.set_ready()
        self._log.info(
            "gateway_started",
            version=__version__,
            address=address,
            redis=redis_url.redact(self._config.redis.url),
            catalogue=self._parts.catalogue.name,
        )
        systemd.notify(f"READY=1\nSTATUS={self._describe()}")

    async def _watch_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                # A terminal that is closed sends SIGHUP too: that is no request to reload.
                if number == signal.SIGHUP and not sys.stdout.isatty():
                    reload_settings(
                        *(self._config, self._load, self._describe, reload.GATEWAY_RELOADABLE, reload.GATEWAY_SECTIONS)
                    )
                    continue
                self._log.info("gateway_stopping", signal=signal.Signals(number).name)
                systemd.notify("STOPPING=1")
                self._parts.health.set_not_ready("stopping")
                self._stopping.set()

    def _describe(self) -> str:
        """One line for `systemctl status`."""
        readiness = self._parts.health.readiness()
        if not readiness.is_ready:
            return readiness.reason[0].upper() + readiness.reason[1:]
        return "Serving"


def give_way() -> None:
    """Lower the priority of this process, before it has other threads. The unit has done so already."""
    missing = NICENESS - os.getpriority(os.PRIO_PROCESS, 0)
    if missing > 0:
        # The system calls of a unit can be restricted: then its settings decide.
        with contextlib.suppress(PermissionError):
            os.nice(missing)


def build(config: settings.Settings, loops: LoopWatch) -> GatewayParts:
    """All parts, wired together. Connects to nothing yet."""
    access, counts = AccessControl(config.gateway), GatewayCounts()
    health = Health(config.redis, loops.stuck)
    catalogue = factory.create_read_only(config)
    live = LiveService(config, access, counts, catalogue)
    return GatewayParts(
        config=config,
        link=Link(config.redis),
        catalogue=catalogue,
        access=access,
        health=health,
        counts=counts,
        registry=metrics.build_registry(counts, health, live.gauges),
        live=live,
        indexes=IndexBuilder(),
        closing=anyio.Event(),
    )


def _tls(config: settings.GatewaySettings) -> Callable[[], ssl.SSLContext] | None:
    """What gives the TLS context of a connection; None where the settings name no certificate."""
    if not config.cert_file:
        return None
    return tls.CertificateFiles(config.cert_file, config.key_file, "gateway.cert_file").context
