"""Builds all parts of a supervisor: a function for each package, from the bottom layer up. What a part needs from a
package above its own is passed to it here. Starts nothing.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final

from rta_supervisor.archive import scheduled_run
from rta_supervisor.archive.record import ArchiveRecorder
from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.session_queries import SessionQueries
from rta_supervisor.catalogue.sync import CatalogueSync
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.channels.binding import ConfigBinder
from rta_supervisor.channels.parts import ConfigPartService
from rta_supervisor.channels.publishing import ConfigService
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.channels.sync import ConfigSync
from rta_supervisor.compaction.cold_trimmer import ColdTrimmer
from rta_supervisor.compaction.compactor import Compactor
from rta_supervisor.control.control_streams import ControlStreams
from rta_supervisor.control.dead_letters import DeadLetterWriter
from rta_supervisor.control.report_consumer import ReportConsumer
from rta_supervisor.control.request_consumer import RequestConsumer
from rta_supervisor.control.request_priority import RequestPriority
from rta_supervisor.control.requests import RequestHandler, RequestService
from rta_supervisor.diagnostics import counters
from rta_supervisor.diagnostics.loop_watch import LoopWatch
from rta_supervisor.nodes import leases, periodic
from rta_supervisor.nodes.leases import Leases
from rta_supervisor.nodes.registry import Node
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.nodes.time_sync import TimeSync
from rta_supervisor.observe.health import Health
from rta_supervisor.observe.history import HistoryRecorder
from rta_supervisor.observe.limit_record import LimitRecorder
from rta_supervisor.observe.sampler import Sampler
from rta_supervisor.publish import worker as publish_worker
from rta_supervisor.publish.duty import PublishDuty
from rta_supervisor.recovery.loss_detector import LossDetector
from rta_supervisor.recovery.recovery import Recovery, RecoverySteps
from rta_supervisor.recovery.resurrection import Resurrection
from rta_supervisor.recovery.session_restorer import SessionRestorer
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.retention.key_sweep import KeySweep
from rta_supervisor.retention.trim_requests.service import TrimService
from rta_supervisor.retention.trimmer import Trimmer
from rta_supervisor.runtime.parts import (
    CatalogueParts,
    ConfigParts,
    ControlParts,
    HandlerParts,
    NodeParts,
    ObserverParts,
    RecoveryParts,
    RetentionParts,
    SessionParts,
    SupervisorParts,
)
from rta_supervisor.session.effects import SessionEffects
from rta_supervisor.session.opening.external_ids import ExternalIds
from rta_supervisor.session.opening.open_sessions import OpenSessions
from rta_supervisor.session.progress_reader import ProgressReader
from rta_supervisor.session.recent_reports import RecentReports
from rta_supervisor.session.refresher import Refresher
from rta_supervisor.session.reports import ReportHandler
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.silence_watchdog import SilenceWatchdog
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings.settings import Settings
from rta_supervisor.transport.coalescing_link import CoalescingLink
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks.webhooks import Webhooks
from rta_wire import errors
from rta_wire.pb import control_pb2

CATALOGUE_SYNC_DUTY: Final = "follow"
"""The lease for syncing a catalogue that supervisors share: one at a time looks for what none has written to it."""

Duty = Callable[[], Coroutine[Any, Any, None]]


def build(settings: Settings) -> SupervisorParts:
    """All parts, wired together. Connects to nothing yet."""
    link = Link(settings.redis)
    catalogue = build_catalogue(link, settings)
    nodes = build_nodes(link, settings, shares_catalogue=catalogue.repository.is_shared)
    control = build_control(link, settings, nodes)
    retention = build_retention(link, settings)
    webhooks = Webhooks(CoalescingLink(link), settings)
    sessions = build_sessions(
        link, settings, control=control, retention=retention, catalogue=catalogue, webhooks=webhooks
    )
    recovery = build_recovery(
        link, settings, nodes=nodes, control=control, retention=retention, catalogue=catalogue, sessions=sessions
    )
    return SupervisorParts(
        link=link,
        nodes=nodes,
        control=control,
        retention=retention,
        catalogue=catalogue,
        webhooks=webhooks,
        sessions=sessions,
        compactor=Compactor(link, sessions.store, catalogue.repository, settings),
        recovery=recovery,
        handlers=build_handlers(
            link,
            settings,
            control=control,
            retention=retention,
            catalogue=catalogue,
            sessions=sessions,
            recovery=recovery,
        ),
        observers=build_observers(link, settings, sessions),
    )


def build_catalogue(link: Link, settings: Settings) -> CatalogueParts:
    repository = factory.create(settings)
    reader = repository.reader()
    return CatalogueParts(
        repository=repository,
        reader=reader,
        writer=CatalogueWriter(link, repository, settings),
        configs=build_configs(link, settings, repository, reader),
    )


def build_configs(link: Link, settings: Settings, repository: Catalogue, reader: Catalogue) -> ConfigParts:
    store = ConfigStore(link, settings.keys, repository)
    return ConfigParts(
        service=ConfigService(link, settings, store, repository),
        parts=ConfigPartService(ConfigStore(link, settings.keys, reader)),
        sync=ConfigSync(link, settings, store, repository),
        binder=ConfigBinder(store, settings),
    )


def build_nodes(link: Link, settings: Settings, *, shares_catalogue: bool) -> NodeParts:
    node = Node(link, settings)
    duties = (
        *leases.DUTIES,
        *((CATALOGUE_SYNC_DUTY,) if shares_catalogue else ()),
        *((scheduled_run.DUTY,) if settings.archive.every_s else ()),
        *((publish_worker.DUTY,) if settings.publish.is_on else ()),
    )
    return NodeParts(
        node=node,
        leases=Leases(link, settings, node.id, duties),
        time_sync=TimeSync(link, now_ms, settings.node.beat_s),
    )


def build_control(link: Link, settings: Settings, nodes: NodeParts) -> ControlParts:
    requests = {settings.keys.requests(principal): principal for principal in settings.control.requesters}
    reports = {settings.keys.reports(principal): principal for principal in settings.control.principals}
    consumer = nodes.node.id
    return ControlParts(
        requests=RequestConsumer(
            ControlStreams("requests", requests, link, settings, consumer),
            settings,
            link.outage_log,
            ProgressReader(link, settings.keys).read_all,
        ),
        reports=ReportConsumer(ControlStreams("reports", reports, link, settings, consumer), settings, link.outage_log),
        request_letters=DeadLetterWriter(link, settings, kind="requests"),
        report_letters=DeadLetterWriter(link, settings, kind="reports"),
        request_priority=RequestPriority(),
    )


def build_retention(link: Link, settings: Settings) -> RetentionParts:
    return RetentionParts(
        trimmer=Trimmer(link, settings), days=DayIndex(link, settings), key_sweep=KeySweep(link, settings)
    )


def build_sessions(
    link: Link,
    settings: Settings,
    *,
    control: ControlParts,
    retention: RetentionParts,
    catalogue: CatalogueParts,
    webhooks: Webhooks,
) -> SessionParts:
    store = SessionStore(link, settings)
    # Requests of many sessions are served at the same time: their commands share round trips.
    shared = CoalescingLink(link)
    shared_store = SessionStore(shared, settings)
    effects = SessionEffects(
        shared,
        settings,
        shared_store,
        catalogue.writer.mark_changed,
        outbox=webhooks.outbox,
        remove_hash=retention.key_sweep.remove_later,
    )
    open_sessions = OpenSessions(settings)
    service = SessionService(
        settings,
        shared_store,
        effects,
        ExternalIds(shared, settings, shared_store),
        DayIndex(shared, settings),
        open_sessions=open_sessions,
    )
    service.choose_config = catalogue.configs.binder.choose
    return SessionParts(
        store=store,
        open_sessions=open_sessions,
        service=service,
        refresher=Refresher(store, service, settings, catalogue.writer.record_progress),
        watchdog=SilenceWatchdog(
            store, service, settings, lambda: max(control.reports.listening_since_ms, now_ms.steady_since_ms)
        ),
        recent_reports=RecentReports(),
    )


def build_recovery(
    link: Link,
    settings: Settings,
    *,
    nodes: NodeParts,
    control: ControlParts,
    retention: RetentionParts,
    catalogue: CatalogueParts,
    sessions: SessionParts,
) -> RecoveryParts:
    repository = catalogue.repository
    restorer = SessionRestorer(sessions.store, sessions.service, sessions.recent_reports)
    recovery = Recovery(
        link,
        sessions.store,
        restorer,
        repository,
        config=settings,
        steps=RecoverySteps(
            prepare=(
                control.requests.streams.create_groups,
                control.reports.streams.create_groups,
                nodes.node.register,
                nodes.leases.renew,
                # The progress that only this process knows: losses are found by comparing with the catalogue.
                catalogue.writer.flush_progress,
                lambda: retention.days.restore(repository.streams),
            ),
            complete=(catalogue.configs.sync.sync,),
        ),
        on_outage=control.reports.note_outage,
    )
    return RecoveryParts(
        recovery=recovery,
        loss_detector=LossDetector(link, settings.keys, nodes.node.id),
        resurrection=Resurrection(
            link, sessions.store, restorer, repository, settings, restore_configs=catalogue.configs.sync.restore
        ),
        catalogue_sync=CatalogueSync(
            link,
            sessions.store,
            repository,
            settings,
            on_stale=catalogue.writer.mark_changed,
            close_reopened=recovery.close_reopened,
        ),
    )


def build_handlers(
    link: Link,
    settings: Settings,
    *,
    control: ControlParts,
    retention: RetentionParts,
    catalogue: CatalogueParts,
    sessions: SessionParts,
    recovery: RecoveryParts,
) -> HandlerParts:
    queries = SessionQueries(link, settings, catalogue.reader, catalogue.writer, sessions.service.external_ids)
    services: dict[type, RequestService] = {
        control_pb2.GetSession: queries.get,
        control_pb2.ListSessions: queries.search,
        control_pb2.OpenSession: sessions.service.open,
        control_pb2.UpdateSession: sessions.service.update,
        control_pb2.CloseSession: sessions.service.close,
        control_pb2.ResurrectSession: recovery.resurrection.serve,
        control_pb2.NoteArchived: ArchiveRecorder(link, settings, sessions.store, catalogue.repository).record,
        control_pb2.PublishConfig: catalogue.configs.service.publish,
        control_pb2.GetConfig: catalogue.configs.parts.get,
        control_pb2.TrimStream: TrimService(link, settings, retention.trimmer, ColdTrimmer(link, settings).trim).trim,
    }
    return HandlerParts(
        requests=RequestHandler(
            *(CoalescingLink(link), settings, control.request_letters, services, control.request_priority),
            has_lost_since=lambda at_ms: recovery.recovery.has_lost_since(recovery.loss_detector, at_ms),
        ),
        reports=ReportHandler(
            control.report_letters,
            sessions.store,
            sessions.refresher,
            settings,
            control.request_priority,
            recent_reports=sessions.recent_reports,
            on_changed=control.requests.note_changed,
        ),
    )


def build_observers(link: Link, settings: Settings, sessions: SessionParts) -> ObserverParts:
    loops = LoopWatch()
    return ObserverParts(
        loops=loops,
        health=Health(settings.redis, loops.stuck),
        sampler=Sampler(link, settings, sessions.open_sessions),
        history=HistoryRecorder(link, settings.keys, counters.counts),
        limits=LimitRecorder(link, settings.keys, counters.counts),
    )


def duties(parts: SupervisorParts, settings: Settings) -> dict[str, Duty]:
    """Everything that runs beside the consumers of control streams, by its name in logs and `/health`."""
    nodes, sessions, retention, recovery = parts.nodes, parts.sessions, parts.retention, parts.recovery
    turns = nodes.leases.of
    sync_turns = turns(CATALOGUE_SYNC_DUTY) if parts.catalogue.repository.is_shared else periodic.UNLEASED
    duties_by_name: dict[str, Duty] = {
        "node": nodes.node.run,
        "leases": nodes.leases.run,
        "clock": nodes.time_sync.run,
        "beat": lambda: recovery.recovery.run(recovery.loss_detector, settings.node.beat_s),
        "refresh": sessions.refresher.run,
        "gaps": sessions.refresher.run_gaps,
        "idle_refresh": lambda: sessions.refresher.run_idle(turns("idle_refresh")),
        "watchdog": lambda: sessions.watchdog.run(turns("watchdog")),
        "archivist": parts.catalogue.writer.run,
        "follower": lambda: recovery.catalogue_sync.run(sync_turns),
        "configs": lambda: parts.catalogue.configs.sync.run(sync_turns),
        "trim": lambda: retention.trimmer.run(turns("trim")),
        "sweep": lambda: retention.key_sweep.run(turns("sweep")),
        "compact": lambda: parts.compactor.run(turns("compact")),
        "survey": parts.observers.sampler.run,
        "limits": parts.observers.limits.run,
        **parts.webhooks.duties(),
    }
    if settings.archive.every_s:
        scheduled = scheduled_run.ScheduledArchive(parts.link, settings)
        duties_by_name["archive"] = lambda: scheduled.run(turns(scheduled_run.DUTY))
    if settings.publish.is_on:

        async def catch_up() -> None:
            # Where each host has a catalogue of its own, this one may lag behind what was published from another.
            await recovery.catalogue_sync.sync()
            await parts.catalogue.writer.flush_changes()
            if parts.catalogue.writer.is_behind:
                raise errors.CatalogueUnavailable(path=parts.catalogue.repository.name, reason="it is behind Redis")

        publish = PublishDuty(parts.link, settings, nodes.node.id, catch_up)
        duties_by_name["publish"] = lambda: publish.run(turns(publish_worker.DUTY))
    if settings.metrics.slots:
        duties_by_name["slots"] = parts.observers.history.run
    return duties_by_name
