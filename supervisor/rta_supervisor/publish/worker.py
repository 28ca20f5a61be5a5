"""The process that publishes: reads the catalogue, calls the services, and reports to the supervisor that started it.

A process of its own, because two thousand calls a second would take half of the time of the loop that serves sessions.
It ends when its supervisor closes the connection, which also happens when that one is killed.
"""

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

import anyio
import redis.exceptions

from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.nodes.time_sync import TimeSync
from rta_supervisor.publish import pace, status, worker_connection
from rta_supervisor.publish.config_uploads import ConfigSource, ConfigUploads
from rta_supervisor.publish.publisher import Publisher
from rta_supervisor.publish.refused_calls import RefusedCalls
from rta_supervisor.publish.sequence import LastSequence
from rta_supervisor.publish.status import PublishStatus
from rta_supervisor.publish.toolkit_client import ToolkitClient
from rta_supervisor.publish.worker_connection import WorkerJob, WorkerReports
from rta_supervisor.settings import redaction, reload
from rta_supervisor.transport import failures
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks.breaker import Breaker
from rta_wire import errors

DUTY: Final = "publish"
"""The lease under which one supervisor at a time publishes."""

NICENESS: Final = 19
OUTAGE_PAUSE_S: Final = 1.0


class PublishLoop:
    """Publishes round after round, at the pace that can be kept up."""

    def __init__(
        self, link: Link, catalogue: Catalogue, job: WorkerJob, source: ConfigSource, reports: WorkerReports
    ) -> None:
        config = job.settings
        self._link = link
        self._catalogue = catalogue
        self._keys = config.keys
        self._node_id = job.node_id
        self._reports = reports
        self._client = ToolkitClient(config.publish)
        breaker = Breaker(failures=config.publish.breaker_failures, open_s=config.publish.breaker_open_s)
        self._configs = ConfigUploads(self._client, source, breaker, RefusedCalls(link, config).add_config)
        host = "" if catalogue.is_shared else f"{socket.gethostname()}:"
        self._publisher = Publisher(
            link, catalogue, config, self._client, self._configs, catalogue_name=f"{host}{catalogue.name}"
        )
        self._pace = pace.Pace(config.publish.every_s)
        self._tick_s = pace.tick_s(config.publish.every_s)
        self._clock = TimeSync(link, now_ms, config.node.beat_s)
        self._is_clock_set = False
        self._is_failing = False
        self._busy_s = 0.0
        self._measured = (time.monotonic(), time.process_time())
        self._log = log.get()

    async def run(self) -> None:
        """Publish until cancelled, or until another supervisor has the lease."""
        await self._catalogue.publications.check(self._catalogue.name)
        try:
            while True:
                started_s = time.monotonic()
                try:
                    if not self._is_clock_set:
                        # The clock of this host may be another one than that of the rows.
                        await self._clock.sync()
                        self._is_clock_set = True
                    # In this order: whoever has the lease next takes a later sequence than this one reads here.
                    last_sequence = await self._publisher.last_sequence()
                    if not await self._has_lease():
                        return
                    has_more = await self._round(last_sequence)
                    # At even times, however long a round takes: pauses must not make it late without anybody noticing.
                    pause_s = 0.0 if has_more else max(0.0, started_s + self._tick_s - time.monotonic())
                except redis.exceptions.ResponseError as error:
                    # Somebody has put something else in place of a key of ours, or has taken rights away.
                    self._log_failure(failures.to_rta_error(self._link.config.url, error))
                    pause_s = OUTAGE_PAUSE_S
                except (*RETRIABLE_ERRORS, errors.RtaError) as error:
                    self._log_failure(error)
                    pause_s = OUTAGE_PAUSE_S
                self._reports.send_events()
                await anyio.sleep(pause_s)
        finally:
            with anyio.move_on_after(1, shield=True):
                await self._client.close()

    async def _has_lease(self) -> bool:
        """Whether no other supervisor has the lease. Where it is gone, ours is renewed in a moment."""
        owner = await self._link.do("GET", self._keys.lease(DUTY))
        return owner is None or owner.decode() == self._node_id

    async def _round(self, last_sequence: LastSequence) -> bool:
        started_s = time.monotonic()
        has_more = await self._publisher.run_round(self._pace.period_s, last_sequence)
        self._busy_s += time.monotonic() - started_s
        if self._is_failing:
            self._is_failing = False
            self._log.info("publish_caught_up")
        if time.monotonic() - self._measured[0] >= min(status.STATUS_S, self._tick_s * 2):
            await self._measure()
        return has_more

    async def _measure(self) -> None:
        """Choose the pace, and tell the supervisor and Redis how it goes."""
        at_s, cpu_s = time.monotonic(), time.process_time()
        was_slowed = self._pace.is_slowed
        self._pace.note(elapsed_s=at_s - self._measured[0], busy_s=self._busy_s, cpu_s=cpu_s - self._measured[1])
        self._measured, self._busy_s = (at_s, cpu_s), 0.0
        if self._pace.is_slowed and not was_slowed:
            self._log.warning("publish_slowed", period_s=round(self._pace.period_s, 1))
        elif was_slowed and not self._pace.is_slowed:
            self._log.info("publish_on_pace", period_s=self._pace.period_s)
        await self._clock.sync()
        backlog = await self._catalogue.publications.backlog()
        at_ms = now_ms()
        current = PublishStatus(
            node=self._node_id,
            at_ms=at_ms,
            period_s=round(self._pace.period_s, 1),
            waiting=backlog.waiting,
            oldest_s=0.0 if backlog.since_ms is None else max(0, at_ms - backlog.since_ms) / 1000,
            refused=backlog.refused,
            problem=self._publisher.problem or self._configs.problem,
        )
        await self._link.do(*status.write(self._keys, current))
        self._reports.send_figures(counters.counts.publications, self._configs.stored, current)
        log.log_suppressed()

    def _log_failure(self, error: Exception) -> None:
        if not self._is_failing:
            self._is_failing = True
            self._log.warning("publish_interrupted", error=str(error))


async def _run(job: WorkerJob, connection: socket.socket, reports: WorkerReports) -> None:
    failure: errors.RtaError | None = None
    link = Link(job.settings.redis)
    catalogue = factory.create(job.settings)
    configs = ConfigStore(link, job.settings.keys, catalogue)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(follow_supervisor, job, connection, group.cancel_scope)
            try:
                await PublishLoop(link, catalogue, job, configs.get, reports).run()
            except errors.RtaError as error:
                failure = error  # raised outside of the group, which would wrap it
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await catalogue.close()
            await link.close()
    if failure is not None:
        raise failure


async def follow_supervisor(job: WorkerJob, connection: socket.socket, scope: anyio.CancelScope) -> None:
    """Take over settings that the supervisor has reloaded. Cancel a scope once it is gone or wants this process to
    end."""
    while True:
        await anyio.wait_readable(connection)
        changed = worker_connection.receive_job(connection)
        if changed is None:
            scope.cancel()
            return
        reload.apply(job.settings, reload.compare(job.settings, changed.settings))
        _configure_log(job)


def _configure_log(job: WorkerJob) -> None:
    log.configure(job.settings.log, redaction.secrets(job.settings))


def lower_priority() -> None:
    """Let other processes come first where processors are short. A sandbox may forbid it."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)


def main(arguments: Sequence[str]) -> None:
    """Publish over the connection whose file descriptor is the first argument, until it is closed."""
    # A terminal and systemd send signals to all processes of a service. The supervisor says when to end.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    lower_priority()
    with socket.socket(fileno=int(arguments[0])) as connection:
        job = worker_connection.receive_job(connection)
        if job is None:
            return
        _configure_log(job)
        log.bind(node=job.node_id)
        reports = WorkerReports(connection)
        try:
            anyio.run(_run, job, connection, reports)
        except errors.RtaError as error:
            log.get().error("publish_impossible", error=str(error))
            sys.exit(error.exit_code)
        finally:
            log.log_suppressed(is_last=True)
            reports.send_events()
