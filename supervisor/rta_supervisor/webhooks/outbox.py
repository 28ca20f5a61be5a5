"""Puts state changes into the queues of those who want to hear of them, right after the change and before anything that
lets the session go.

The note of a change is written with the change itself. So a supervisor that dies between the two leaves the note, and
who takes over the session finds it there.
"""

from collections.abc import Callable, Mapping

import msgspec

from rta_supervisor.diagnostics import log
from rta_supervisor.session.model import SessionRecord
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks import change
from rta_supervisor.webhooks.queue import DeliveryQueue
from rta_wire import keys
from rta_wire.session import State


class Outbox:
    """Who hears of which states."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        queues: Mapping[str, DeliveryQueue],
        on_queued: Callable[[str], None],
    ) -> None:
        self._link = link
        self._names: keys.Keys = config.keys
        self._targets = config.webhooks.to
        self._queues = queues
        self._on_queued = on_queued
        self._log = log.get()

    def note_for(self, version: int, state: State, previous: State | None, at_ms: int) -> str | None:
        """The note to be written with a change of state; None where no webhook wants it."""
        if state is previous or not any(target.wants(state) for target in self._targets.values()):
            return None
        return change.StateChange(version, state, previous, at_ms).to_field()[1]

    async def enqueue_pending(self, known: SessionRecord) -> None:
        """Queue what is noted with a session, then remove the notes. Repeating it doubles nothing that waits."""
        notes = change.pending_changes(known)
        if not notes:
            return
        wanted = [
            (name, change.WebhookPayload.build(known, note))
            for note in notes
            for name, target in self._targets.items()
            if target.wants(note.state) and name in self._queues
        ]
        gone = await self._link.do_all(
            [self._queues[name].add_call(one.id, msgspec.json.encode(one), due_ms=one.at_ms) for name, one in wanted]
        )
        fields = [note.to_field()[0] for note in notes]
        await self._link.do("HDEL", self._names.session_state(known.ref.identity), *fields)
        for (name, _), ids in zip(wanted, gone, strict=True):
            for delivery_id in ids:
                self._log.error("webhook_dropped", webhook=name, delivery=delivery_id.decode(), reason="queue full")
            self._on_queued(name)
