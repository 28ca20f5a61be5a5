"""A catalogue, a service, and publishers between them."""

import json
from typing import Any

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.publish.config_uploads import ConfigUploads
from rta_supervisor.publish.publisher import Publisher
from rta_supervisor.publish.refused_calls import RefusedCalls
from rta_supervisor.publish.toolkit_client import ToolkitClient
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks.breaker import Breaker
from rta_wire import session
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.support.toolkit_services import ToolkitServices

LONG_AGO_S = 0.0
"""A period after which everything is told at each round."""

ONCE_S = 3600.0


class Scene:
    """A catalogue, a service, and publishers between them."""

    def __init__(self, link: Link, catalogue: Catalogue, services: ToolkitServices, config: settings.Settings) -> None:
        self.link = link
        self.catalogue = catalogue
        self.services = services
        self.config = config
        self.configs: dict[str, bytes] = {}
        self.clock: Clock = now_ms
        self.client = ToolkitClient(config.publish)
        self.publisher = self.new_publisher()

    def new_publisher(self, name: str = "") -> Publisher:
        """One that knows nothing but what is stored."""

        async def source(identifier: str) -> bytes | None:
            return self.configs.get(identifier)

        refuse = RefusedCalls(self.link, self.config).add_config
        uploads = ConfigUploads(self.client, source, Breaker(failures=5, open_s=0.001), refuse)
        return Publisher(
            *(self.link, self.catalogue, self.config, self.client, uploads),
            catalogue_name=name,
            clock=lambda: self.clock(),  # noqa: PLW0108 - it may be set to another one
        )

    async def save(
        self,
        identity: str = "run-1",
        state: State = State.OPEN,
        *,
        number: int = 1,
        version: int = 1,
        times: tuple[int, int] | None = None,
        at_ms: int | None = None,
        **properties: Any,
    ) -> CatalogueRow:
        """Save a row as a supervisor does."""
        document = session.build(identity, timestamp="2026-11-18T00:00:00+00:00", **properties)
        text = json.dumps(document | {"state": state.value})
        totals = Totals() if times is None else Totals(1, 1, 1, 1, *times)
        at_ms = now_ms() if at_ms is None else at_ms
        row = CatalogueRow(identity, "rig", number, "p", state, text, totals, version, at_ms, at_ms)
        await self.catalogue.save([row])
        return row

    async def round(self, period_s: float = ONCE_S) -> bool:
        return await self.publisher.run_round(period_s, await self.publisher.last_sequence())

    def operations(self) -> list[list[str]]:
        """What each call changed, oldest first."""
        return [
            [update.WhichOneof("operation") for update in request.updates]
            for method, request in self.services.requests
            if method == "CreateOrUpdateSession"
        ]
