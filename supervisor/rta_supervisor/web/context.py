"""What the routes of the web application read from the daemon."""

import dataclasses

import anyio
from prometheus_client import CollectorRegistry

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.observe.health import Health
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link


@dataclasses.dataclass(frozen=True)
class WebContext:
    """The parts of the daemon that routes read from."""

    config: settings.Settings
    node_id: str
    link: Link
    sessions: SessionStore
    catalogue: Catalogue
    health: Health
    registry: CollectorRegistry
    """Metrics."""
    closing: anyio.Event
    """Set when the server is about to end: event streams have to end by themselves then."""
