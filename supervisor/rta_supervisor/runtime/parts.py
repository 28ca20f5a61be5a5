"""The parts of a running supervisor, grouped by package. `wiring` builds them."""

from typing import NamedTuple

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.sync import CatalogueSync
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.channels.binding import ConfigBinder
from rta_supervisor.channels.parts import ConfigPartService
from rta_supervisor.channels.publishing import ConfigService
from rta_supervisor.channels.sync import ConfigSync
from rta_supervisor.compaction.compactor import Compactor
from rta_supervisor.control.dead_letters import DeadLetterWriter
from rta_supervisor.control.report_consumer import ReportConsumer
from rta_supervisor.control.request_consumer import RequestConsumer
from rta_supervisor.control.request_priority import RequestPriority
from rta_supervisor.control.requests import RequestHandler
from rta_supervisor.diagnostics.loop_watch import LoopWatch
from rta_supervisor.nodes.leases import Leases
from rta_supervisor.nodes.registry import Node
from rta_supervisor.nodes.time_sync import TimeSync
from rta_supervisor.observe.health import Health
from rta_supervisor.observe.history import HistoryRecorder
from rta_supervisor.observe.limit_record import LimitRecorder
from rta_supervisor.observe.sampler import Sampler
from rta_supervisor.recovery.loss_detector import LossDetector
from rta_supervisor.recovery.recovery import Recovery
from rta_supervisor.recovery.resurrection import Resurrection
from rta_supervisor.retention.day_index import DayIndex
from rta_supervisor.retention.key_sweep import KeySweep
from rta_supervisor.retention.trimmer import Trimmer
from rta_supervisor.session.opening.open_sessions import OpenSessions
from rta_supervisor.session.recent_reports import RecentReports
from rta_supervisor.session.refresher import Refresher
from rta_supervisor.session.reports import ReportHandler
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.silence_watchdog import SilenceWatchdog
from rta_supervisor.session.store import SessionStore
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks.webhooks import Webhooks


class NodeParts(NamedTuple):
    """This supervisor among others: its registration, its leases and the clock of Redis."""

    node: Node
    leases: Leases
    time_sync: TimeSync


class ControlParts(NamedTuple):
    """The consumers of both kinds of control streams, where their dead letters go, and which of them goes first."""

    requests: RequestConsumer
    reports: ReportConsumer
    request_letters: DeadLetterWriter
    report_letters: DeadLetterWriter
    request_priority: RequestPriority


class RetentionParts(NamedTuple):
    """What removes old entries, and says which stream a new session goes to."""

    trimmer: Trimmer
    days: DayIndex
    key_sweep: KeySweep


class ConfigParts(NamedTuple):
    """What publishes configurations and keeps those that sessions are bound to."""

    service: ConfigService
    parts: ConfigPartService
    sync: ConfigSync
    binder: ConfigBinder


class CatalogueParts(NamedTuple):
    """The catalogue, the connection for searches in it, and what writes changes of sessions to it."""

    repository: Catalogue
    reader: Catalogue
    writer: CatalogueWriter
    configs: ConfigParts


class SessionParts(NamedTuple):
    """What serves, publishes and abandons sessions."""

    store: SessionStore
    open_sessions: OpenSessions
    service: SessionService
    refresher: Refresher
    watchdog: SilenceWatchdog
    recent_reports: RecentReports


class RecoveryParts(NamedTuple):
    """What restores sessions after a loss, and keeps Redis and the catalogue in agreement."""

    recovery: Recovery
    loss_detector: LossDetector
    resurrection: Resurrection
    catalogue_sync: CatalogueSync


class HandlerParts(NamedTuple):
    """What handles the messages of each kind of control stream."""

    requests: RequestHandler
    reports: ReportHandler


class ObserverParts(NamedTuple):
    """What people, Prometheus and systemd look at."""

    loops: LoopWatch
    health: Health
    sampler: Sampler
    history: HistoryRecorder
    limits: LimitRecorder


class SupervisorParts(NamedTuple):
    """Everything that runs."""

    link: Link
    nodes: NodeParts
    control: ControlParts
    retention: RetentionParts
    catalogue: CatalogueParts
    webhooks: Webhooks
    sessions: SessionParts
    compactor: Compactor
    recovery: RecoveryParts
    handlers: HandlerParts
    observers: ObserverParts
