"""What pages may look at."""

import dataclasses

import anyio
from prometheus_client import CollectorRegistry

from rta_supervisor import settings
from rta_supervisor.catalogue import Catalogue
from rta_supervisor.health import Health
from rta_supervisor.link import Link
from rta_supervisor.sessions import Sessions


@dataclasses.dataclass(frozen=True)
class Parts:
    """The daemon, as far as it concerns a page."""

    config: settings.Settings
    node_id: str
    link: Link
    sessions: Sessions
    catalogue: Catalogue
    health: Health
    registry: CollectorRegistry
    """Metrics."""
    closing: anyio.Event
    """Set when the server is about to end: a page that streams has to end by itself then."""
