"""Queues changes of state for the targets that want them, right after the change and before the session may expire.

The note of a change is written together with the change itself. A supervisor that dies before the change is queued
leaves the note, and the supervisor that takes over the session finds it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from rta_supervisor.diagnostics import counters, log, principal_limits
from rta_supervisor.session.model import SessionRecord
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks import change as changes
from rta_supervisor.webhooks import delivery_queue
from rta_supervisor.webhooks.delivery_queue import DeliveryQueue, SurplusDelivery
from rta_supervisor.webhooks.server_functions import NewDelivery
from rta_wire import keys
from rta_wire.session import State

FULL: Final = {"principal": "webhook_deliveries", "target": "webhooks.max_pending"}
"""The names of the limits whose surplus goes to the dead letters."""


class Outbox:
    """Fills the queues of all targets."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        queues: Mapping[str, DeliveryQueue],
        on_queued: Callable[[str], None],
    ) -> None:
        """`queues`: by the name of the target. `on_queued`: called with the name of a target with a new delivery."""
        self._link = link
        self._keys = config.keys
        self._targets = config.webhooks.to
        self._queues = queues
        self._on_queued = on_queued
        self._log = log.get()

    @property
    def has_targets(self) -> bool:
        """Whether there is any webhook."""
        return bool(self._targets)

    def note_for(self, version: int, state: State, previous: State | None, at_ms: int) -> str | None:
        """The note to be written with a change of state; None where no webhook wants it."""
        if state is previous or not any(target.wants(state) for target in self._targets.values()):
            return None
        return changes.StateChange(version, state, previous, at_ms).to_note()

    async def enqueue_pending(self, record: SessionRecord) -> None:
        """Queue the changes that are noted with a session, then remove the notes.

        It may be repeated: a delivery that is in the queue is not added again.
        """
        pending = changes.pending_changes(record)
        if not pending:
            return
        deliveries = [
            (name, _delivery(record, change))
            for change in pending
            for name, target in self._targets.items()
            if target.wants(change.state) and name in self._queues
        ]
        replies = await self._link.do_all([self._queues[name].add_command(delivery) for name, delivery in deliveries])
        fields = [keys.change_field(change.version) for change in pending]
        await self._link.do("HDEL", self._keys.session_state(record.ref.identity), *fields)
        for (name, _), reply in zip(deliveries, replies, strict=True):
            self._on_queued(name)
            if reply:
                await self._shed(name, record, delivery_queue.parse_surplus(reply))

    async def _shed(self, name: str, record: SessionRecord, surplus: Sequence[SurplusDelivery]) -> None:
        """Take deliveries out of a full queue: to the dead letters, except those that a later change makes needless."""
        superseded = [delivery.id for delivery in surplus if delivery.limit == "session"]
        if superseded:
            await self._queues[name].complete(*superseded)
            counters.counts.webhooks[name, "superseded"] += len(superseded)
            self._log.warning(
                "webhook_superseded", webhook=name, session=record.ref.identity, principal=record.principal
            )
        for delivery in surplus:
            if delivery.limit == "session":
                continue
            limit = FULL[delivery.limit]
            reason = (
                f"{principal_limits.setting_of(limit)}: too many deliveries of principal {delivery.principal!r} wait"
            )
            await self._queues[name].give_up(delivery, "WebhookQueueFull", reason)
            self._log.error(
                "webhook_dropped", webhook=name, delivery=delivery.id, principal=delivery.principal, reason=reason
            )
            principal_limits.note_reached(delivery.principal, limit)


def _delivery(record: SessionRecord, change: changes.StateChange) -> NewDelivery:
    payload = changes.WebhookPayload.build(record, change)
    return NewDelivery(
        id=payload.id,
        body=msgspec.json.encode(payload),
        due_ms=payload.at_ms,
        principal=record.principal,
        session=record.ref.identity,
        version=change.version,
    )
