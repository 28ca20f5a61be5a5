"""The webhooks of a supervisor: builds the queue, the outbox and the deliverers of all targets in the settings."""

from collections.abc import Callable, Coroutine
from typing import Any

from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks.deliverer import Deliverer
from rta_supervisor.webhooks.delivery_queue import DeliveryQueue
from rta_supervisor.webhooks.outbox import Outbox


class Webhooks:
    """All targets: the outbox that fills their queues, and a deliverer for each that empties one."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        queues = {name: DeliveryQueue(link, config, name) for name in config.webhooks.to}
        self._deliverers = {name: Deliverer(link, name, queue, config) for name, queue in queues.items()}
        self.outbox = Outbox(link, config, queues, self._wake)

    def _wake(self, name: str) -> None:
        self._deliverers[name].wake()

    def duties(self) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        """The loops that have to run, by the name that logs give them."""
        return {f"webhook-{name}": deliverer.run for name, deliverer in self._deliverers.items()}
