"""Queues changes of state for the targets that want them, right after the change and before the session may expire.

The note of a change is written together with the change itself. A supervisor that dies before the change is queued
leaves the note, and the supervisor that takes over the session finds it.
"""

from collections.abc import Callable, Mapping

import msgspec

from rta_supervisor.diagnostics import log
from rta_supervisor.session.model import SessionRecord
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks import change as changes
from rta_supervisor.webhooks.delivery_queue import DeliveryQueue
from rta_wire import keys
from rta_wire.session import State


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
            (name, changes.WebhookPayload.build(record, change))
            for change in pending
            for name, target in self._targets.items()
            if target.wants(change.state) and name in self._queues
        ]
        dropped = await self._link.do_all(
            [
                self._queues[name].add_command(payload.id, msgspec.json.encode(payload), due_ms=payload.at_ms)
                for name, payload in deliveries
            ]
        )
        fields = [keys.change_field(change.version) for change in pending]
        await self._link.do("HDEL", self._keys.session_state(record.ref.identity), *fields)
        for (name, _), delivery_ids in zip(deliveries, dropped, strict=True):
            for delivery_id in delivery_ids:
                self._log.error("webhook_dropped", webhook=name, delivery=delivery_id.decode(), reason="queue full")
            self._on_queued(name)
