"""Builds everything that runs: a function for each package, from the bottom layer up. What a part needs from a package
above its own is passed in here.
"""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from rta_supervisor.archive.record import ArchiveRecorder
from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.model import Catalogue
from rta_supervisor.catalogue.sync import CatalogueSync
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.compaction.compactor import Compactor
from rta_supervisor.control.consumer import ControlConsumer
from rta_supervisor.control.dead_letters import DeadLetterWriter
from rta_supervisor.control.priority import Priority
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
from rta_supervisor.observe.sampler import Sampler
from rta_supervisor.recovery.loss_detector import LossDetector
from rta_supervisor.recovery.restore import Recovery
from rta_supervisor.recovery.resurrect import Resurrection
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.retention.trimmer import Trimmer
from rta_supervisor.session.effects import SessionEffects
from rta_supervisor.session.refresher import Refresher
from rta_supervisor.session.reports import ReportHandler
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.silence_watchdog import SilenceWatchdog
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings.settings import Settings
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks.deliverer import Webhooks
from rta_wire.pb import control_pb2

GATHER_REPORTS = 5
"""Batches of reports that are handled as one: those of a unit are merged, so the more at once, the less they cost."""

CATALOGUE_SYNC_DUTY = "follow"
"""Where supervisors share a catalogue, one at a time looks for what no supervisor has written to it."""

Duty = Callable[[], Coroutine[Any, Any, None]]


class Nodes(NamedTuple):
    """This supervisor among others."""

    node: Node
    leases: Leases
    time_sync: TimeSync


class Control(NamedTuple):
    """The two kinds of control streams, and what is shared between them."""

    requests: ControlConsumer
    reports: ControlConsumer
    request_letters: DeadLetterWriter
    report_letters: DeadLetterWriter
    priority: Priority


class Sessions(NamedTuple):
    """The life of sessions."""

    store: SessionStore
    service: SessionService
    refresher: Refresher
    watchdog: SilenceWatchdog


class CatalogueParts(NamedTuple):
    """The catalogue, and what keeps it up to date."""

    catalogue: Catalogue
    writer: CatalogueWriter


class Retention(NamedTuple):
    """What removes entries and streams."""

    trimmer: Trimmer
    days: DayIndex
    compactor: Compactor


class RecoveryParts(NamedTuple):
    """What brings sessions back."""

    recovery: Recovery
    loss_detector: LossDetector
    resurrection: Resurrection
    catalogue_sync: CatalogueSync


class Handlers(NamedTuple):
    """What is done with the messages of each kind of control stream."""

    requests: RequestHandler
    reports: ReportHandler


class Observers(NamedTuple):
    """What people and systemd look at."""

    loops: LoopWatch
    health: Health
    sampler: Sampler
    history: HistoryRecorder


class Supervisor(NamedTuple):
    """Everything that runs."""

    link: Link
    nodes: Nodes
    control: Control
    catalogue: CatalogueParts
    webhooks: Webhooks
    sessions: Sessions
    retention: Retention
    recovery: RecoveryParts
    handlers: Handlers
    observers: Observers


def build(settings: Settings) -> Supervisor:
    """Everything, wired together. Connects to nothing yet."""
    link = Link(settings.redis)
    catalogue = build_catalogue(link, settings)
    nodes = build_nodes(link, settings, shares_catalogue=catalogue.catalogue.is_shared)
    control = build_control(link, settings)
    webhooks = Webhooks(link, settings)
    sessions = build_sessions(link, settings, control, catalogue, webhooks)
    retention = build_retention(link, settings, sessions, catalogue)
    recovery = build_recovery(
        *(link, settings), nodes=nodes, control=control, sessions=sessions, catalogue=catalogue, retention=retention
    )
    return Supervisor(
        link=link,
        nodes=nodes,
        control=control,
        catalogue=catalogue,
        webhooks=webhooks,
        sessions=sessions,
        retention=retention,
        recovery=recovery,
        handlers=build_handlers(
            link, settings, control=control, sessions=sessions, catalogue=catalogue, recovery=recovery
        ),
        observers=build_observers(link, settings),
    )


def build_nodes(link: Link, settings: Settings, *, shares_catalogue: bool) -> Nodes:
    node = Node(link, settings)
    duties = (*leases.DUTIES, CATALOGUE_SYNC_DUTY) if shares_catalogue else leases.DUTIES
    return Nodes(node, Leases(link, settings, node.id, duties), TimeSync(link, now_ms, settings.node.beat_s))


def build_control(link: Link, settings: Settings) -> Control:
    keys = settings.keys
    requesters = settings.control.requesters
    return Control(
        requests=ControlConsumer("requests", keys.requests, link, settings, principals=requesters),
        reports=ControlConsumer("reports", keys.reports, link, settings, gather_batches=GATHER_REPORTS),
        request_letters=DeadLetterWriter(link, settings, lane="requests"),
        report_letters=DeadLetterWriter(link, settings, lane="reports"),
        priority=Priority(),
    )


def build_catalogue(link: Link, settings: Settings) -> CatalogueParts:
    catalogue = factory.create(settings)
    return CatalogueParts(catalogue, CatalogueWriter(link, catalogue, settings))


def build_sessions(
    link: Link, settings: Settings, control: Control, catalogue: CatalogueParts, webhooks: Webhooks
) -> Sessions:
    store = SessionStore(link, settings)
    effects = SessionEffects(link, settings, store, catalogue.writer.mark_changed, outbox=webhooks.outbox)
    service = SessionService(link, settings, store, effects)
    refresher = Refresher(store, service, settings, catalogue.writer.record_progress)
    watchdog = SilenceWatchdog(
        store, service, settings, lambda: max(control.reports.listening_since_ms, now_ms.steady_since_ms)
    )
    return Sessions(store, service, refresher, watchdog)


def build_retention(link: Link, settings: Settings, sessions: Sessions, catalogue: CatalogueParts) -> Retention:
    return Retention(
        trimmer=Trimmer(link, settings),
        days=DayIndex(link, settings),
        compactor=Compactor(link, sessions.store, catalogue.catalogue, settings),
    )


def build_recovery(
    link: Link,
    settings: Settings,
    *,
    nodes: Nodes,
    control: Control,
    sessions: Sessions,
    catalogue: CatalogueParts,
    retention: Retention,
) -> RecoveryParts:
    recovery = Recovery(
        *(link, sessions.store, sessions.service, catalogue.catalogue),
        config=settings,
        prepare=(
            *(control.requests.create_groups, control.reports.create_groups),
            *(nodes.node.register, nodes.leases.renew),
            # What only this process knows of the time before a loss, before it is asked what was lost.
            catalogue.writer.flush_progress,
            lambda: retention.days.restore(catalogue.catalogue.streams),
        ),
        on_outage=control.reports.note_outage,
    )
    return RecoveryParts(
        recovery=recovery,
        loss_detector=LossDetector(link, settings.keys, nodes.node.id),
        resurrection=Resurrection(link, sessions.store, recovery, catalogue.catalogue, settings),
        catalogue_sync=CatalogueSync(
            *(link, sessions.store, catalogue.catalogue, settings),
            on_stale=catalogue.writer.mark_changed,
            close_again=recovery.close_again,
        ),
    )


def build_handlers(
    link: Link,
    settings: Settings,
    *,
    control: Control,
    sessions: Sessions,
    catalogue: CatalogueParts,
    recovery: RecoveryParts,
) -> Handlers:
    service = sessions.service
    recorder = ArchiveRecorder(link, settings, sessions.store, catalogue.catalogue)
    services: dict[type, RequestService] = {
        control_pb2.OpenSession: lambda entry, request: service.open(entry.principal, request),
        control_pb2.UpdateSession: lambda entry, request: service.update(entry.principal, request, entry_id=entry.id),
        control_pb2.CloseSession: lambda entry, request: service.close(
            entry.principal, request, asked_ms=entry.sent_ms
        ),
        control_pb2.ResurrectSession: lambda entry, request: recovery.resurrection.serve(entry.principal, request),
        control_pb2.NoteArchived: lambda entry, request: recorder.record(entry.principal, request),
    }
    return Handlers(
        RequestHandler(link, settings, control.request_letters, services, control.priority),
        ReportHandler(
            *(control.report_letters, sessions.store, sessions.refresher, settings, control.priority),
            recent_reports=recovery.recovery.recent_reports,
        ),
    )


def build_observers(link: Link, settings: Settings) -> Observers:
    loops = LoopWatch()
    return Observers(
        loops=loops,
        health=Health(settings.redis, loops.stuck),
        sampler=Sampler(link, settings),
        history=HistoryRecorder(link, settings.keys, counters.counts),
    )


def duties(parts: Supervisor, settings: Settings) -> dict[str, Duty]:
    """Everything that runs beside the control streams, by the name that logs and `/health` give it."""
    nodes, sessions, retention, recovery = parts.nodes, parts.sessions, parts.retention, parts.recovery
    turns = nodes.leases.of
    sync_turns = turns(CATALOGUE_SYNC_DUTY) if parts.catalogue.catalogue.is_shared else periodic.UNLEASED
    found: dict[str, Duty] = {
        "node": nodes.node.run,
        "leases": nodes.leases.run,
        "clock": nodes.time_sync.run,
        "beat": lambda: recovery.recovery.run(recovery.loss_detector, settings.node.beat_s),
        "refresh": sessions.refresher.run,
        "idle_refresh": lambda: sessions.refresher.run_idle(turns("idle_refresh")),
        "watchdog": lambda: sessions.watchdog.run(turns("watchdog")),
        "archivist": parts.catalogue.writer.run,
        "follower": lambda: recovery.catalogue_sync.run(sync_turns),
        "resurrection": recovery.resurrection.run,
        "trim": lambda: retention.trimmer.run(turns("trim")),
        "compact": lambda: retention.compactor.run(turns("compact")),
        "survey": parts.observers.sampler.run,
        **parts.webhooks.duties(),
    }
    if settings.metrics.slots:
        found["slots"] = parts.observers.history.run
    return found
