"""The queue of deliveries to one target, in Redis: all supervisors share it, each delivery is taken by one of them, and
it outlives a restart. Principals take turns, and the sessions of a principal do.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from rta_supervisor.control import dead_letters
from rta_supervisor.control.dead_letters import NewLetter
from rta_supervisor.diagnostics import counters
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks import server_functions
from rta_supervisor.webhooks.server_functions import NewDelivery, QueueLimits

SESSION_PENDING_MAX: Final = 100
"""Changes of one session that may wait for one target: a later one says what a receiver has to know."""


class WebhookDelivery(msgspec.Struct, frozen=True):
    """A body that was taken from the queue to be posted."""

    id: str
    body: bytes
    attempt: int
    """1 for the first."""
    principal: str
    """Empty where a supervisor of version 0.1.0 has queued it."""


class SurplusDelivery(msgspec.Struct, frozen=True):
    """A delivery that has to leave the queue because others wait too."""

    limit: str
    """What is full: "session", "principal" or "target"."""
    principal: str
    id: str
    body: bytes


class DeliveryQueue:
    """The deliveries to one target."""

    def __init__(self, link: Link, config: settings.Settings, target: str) -> None:
        self._link = link
        self._config = config
        self._target = target

    def add_command(self, delivery: NewDelivery) -> commands.Command:
        """The command that queues a delivery. `parse_surplus` reads its reply."""
        limits = QueueLimits(
            session=SESSION_PENDING_MAX,
            principal=self._config.limits.webhook_deliveries,
            target=self._config.webhooks.max_pending,
        )
        return server_functions.add_delivery(self._config.keys, self._target, delivery, limits)

    async def take(self, now_ms: int, *, take_ms: int) -> WebhookDelivery | float | None:
        """A delivery that is due; or the seconds until one is; or None where the queue is empty."""
        reply = await self._link.do(
            *server_functions.take_delivery(self._config.keys, self._target, now_ms=now_ms, take_ms=take_ms)
        )
        if not reply:
            return None
        if len(reply) == 1:
            return float(reply[0]) / 1000
        delivery_id, body, attempt, principal = reply
        return WebhookDelivery(delivery_id.decode(), body, attempt, principal.decode(errors="replace"))

    async def reschedule(self, delivery: WebhookDelivery, *, due_ms: int) -> None:
        await self._link.do(
            *server_functions.reschedule_delivery(self._config.keys, self._target, delivery.id, due_ms=due_ms)
        )

    async def complete(self, *delivery_ids: str) -> None:
        """Remove deliveries that were posted or given up."""
        names = self._config.keys
        await self._link.do_all(
            [server_functions.complete_delivery(names, self._target, delivery_id) for delivery_id in delivery_ids]
        )

    async def give_up(self, delivery: WebhookDelivery | SurplusDelivery, code: str, reason: str) -> None:
        """Move a delivery to the dead letters, with the reason why it was not posted."""
        counters.counts.webhooks[self._target, "dropped"] += 1
        source = self._config.keys.hook_due(self._target)
        owner = delivery.principal or f"webhook:{self._target}"
        letter = NewLetter(owner, source, delivery.id, code, reason, delivery.body)
        await dead_letters.add_letter(self._link, self._config, letter)
        await self.complete(delivery.id)


def parse_surplus(reply: Iterable[Any]) -> list[SurplusDelivery]:
    """The deliveries that are too many, out of the reply to `add_command`."""
    return [
        SurplusDelivery(limit.decode(), principal.decode(errors="replace"), delivery_id.decode(), body)
        for limit, principal, delivery_id, body in reply
    ]
