"""Deliveries that wait, in Redis: shared by all supervisors, each taken by one of them, and there after a restart."""

from typing import Final

import msgspec

from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import keys

TTL_S: Final = 7 * 24 * 3600
"""A target that is configured no more leaves its queue behind for so long."""


REMEMBER_S: Final = 60
"""For how long a delivery that is done with is not queued again."""


class WebhookDelivery(msgspec.Struct, frozen=True):
    """One body for one target."""

    id: str
    body: bytes
    attempt: int


class DeliveryQueue:
    """What waits for one target."""

    def __init__(self, link: Link, names: keys.Keys, target: str, *, max_pending: int) -> None:
        self._link = link
        self._names = names
        self._target = target
        self._max_pending = max_pending

    @property
    def key(self) -> str:
        return self._names.hook_due(self._target)

    def add_call(self, delivery_id: str, body: bytes, *, due_ms: int) -> commands.Command:
        """Gives the ids that had to make room."""
        return self._call("rtas_hook_add_1", delivery_id, body, due_ms, self._max_pending, TTL_S, of=delivery_id)

    async def take(self, now_ms: int, *, for_ms: int) -> WebhookDelivery | float | None:
        """A delivery, or the seconds until one is due, or None where nothing waits."""
        answer = await self._link.do(*self._call("rtas_hook_take_1", now_ms, for_ms, TTL_S))
        if not answer:
            return None
        if len(answer) == 1:
            return float(answer[0]) / 1000
        delivery_id, body, attempt = answer
        return WebhookDelivery(delivery_id.decode(), body, attempt)

    async def reschedule(self, delivery: WebhookDelivery, *, due_ms: int) -> None:
        await self._link.do(*self._call("rtas_hook_put_back_1", delivery.id, due_ms))

    async def complete(self, delivery: WebhookDelivery) -> None:
        await self._link.do(*self._call("rtas_hook_settle_1", delivery.id, REMEMBER_S, of=delivery.id))

    def _call(self, function: str, *args: commands.Argument, of: str | None = None) -> commands.Command:
        names = [self.key, self._names.hook_bodies(self._target), self._names.hook_tries(self._target)]
        if of is not None:
            names.append(self._names.hook_done(self._target, of))
        return ("FCALL", function, len(names), *names, *args)
