"""The parts of a running gateway that its routes and its WebSockets share. `runtime.gateway` builds them."""

import dataclasses

import anyio
from prometheus_client import CollectorRegistry

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.gateway.access.control import AccessControl
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live.service import LiveService
from rta_supervisor.gateway.rest.data.index.index_builder import IndexBuilder
from rta_supervisor.observe.health import Health
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire.keys import Keys


@dataclasses.dataclass(frozen=True)
class GatewayParts:
    """What the gateway reads from, and what it counts. Everything here is read only."""

    config: settings.Settings
    link: Link
    catalogue: Catalogue
    access: AccessControl
    """Who may see what: `access.may_see(request, stream)`."""
    health: Health
    counts: GatewayCounts
    registry: CollectorRegistry
    """Metrics."""
    live: LiveService
    """All viewers."""
    indexes: IndexBuilder
    """Time indexes that are being made."""
    closing: anyio.Event
    """Set when the gateway is about to end: responses that stay open have to end by themselves then."""

    @property
    def keys(self) -> Keys:
        return self.config.keys
