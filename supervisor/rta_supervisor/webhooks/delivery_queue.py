"""The queue of deliveries to one target, in Redis: all supervisors share it, each delivery is taken by one of them, and
it outlives a restart.
"""

import msgspec

from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks import server_functions
from rta_wire import keys


class WebhookDelivery(msgspec.Struct, frozen=True):
    """A body that was taken from the queue to be posted."""

    id: str
    body: bytes
    attempt: int
    """1 for the first."""


class DeliveryQueue:
    """The deliveries to one target."""

    def __init__(self, link: Link, names: keys.Keys, target: str, *, max_pending: int) -> None:
        self._link = link
        self._names = names
        self._target = target
        self._max_pending = max_pending

    @property
    def key(self) -> str:
        return self._names.hook_due(self._target)

    def add_command(self, delivery_id: str, body: bytes, *, due_ms: int) -> commands.Command:
        """The command that queues a delivery. Its reply has the ids of deliveries that were dropped for it."""
        return server_functions.add_delivery(
            self._names, self._target, delivery_id, body, due_ms=due_ms, max_pending=self._max_pending
        )

    async def take(self, now_ms: int, *, take_ms: int) -> WebhookDelivery | float | None:
        """A delivery that is due; or the seconds until one is; or None where the queue is empty."""
        reply = await self._link.do(
            *server_functions.take_delivery(self._names, self._target, now_ms=now_ms, take_ms=take_ms)
        )
        if not reply:
            return None
        if len(reply) == 1:
            return float(reply[0]) / 1000
        delivery_id, body, attempt = reply
        return WebhookDelivery(delivery_id.decode(), body, attempt)

    async def reschedule(self, delivery: WebhookDelivery, *, due_ms: int) -> None:
        await self._link.do(
            *server_functions.reschedule_delivery(self._names, self._target, delivery.id, due_ms=due_ms)
        )

    async def complete(self, delivery: WebhookDelivery) -> None:
        await self._link.do(*server_functions.complete_delivery(self._names, self._target, delivery.id))
