"""Calls of the server functions on the queue of deliveries to one target."""

from typing import Final

import msgspec

from rta_supervisor.transport import commands
from rta_wire import keys

QUEUE_TTL_S: Final = 7 * 24 * 3600
"""How long the queue of a target stays that is in no settings any more."""

REMEMBER_S: Final = 60
"""How long a delivery that is completed is not queued again."""


class NewDelivery(msgspec.Struct, frozen=True):
    """A change of state that is to be posted to one target."""

    id: str
    body: bytes
    due_ms: int
    principal: str
    session: str
    version: int
    """Of two deliveries of one session that are due at the same time the one with the lower version is the first."""

    @property
    def rank(self) -> str:
        """Its place among the deliveries of its session: text that sorts as the numbers do."""
        return f"{self.due_ms:015d}{self.version:010d}"


class QueueLimits(msgspec.Struct, frozen=True):
    """How many deliveries may wait for one target."""

    session: int
    principal: int
    target: int


def add_delivery(names: keys.Keys, target: str, delivery: NewDelivery, limits: QueueLimits) -> commands.Command:
    """Queue a delivery that is neither queued nor completed.

    The reply has the deliveries that are too many, with the limit that they pass: "session", "principal" or "target",
    their principal, id and body. They stay in the queue until they are completed.
    """
    return (
        *("FCALL", "rtas_hook_add_2", *_keys_with_delivery(names, target, delivery.id)),
        *(delivery.id, delivery.body, delivery.due_ms, delivery.principal, delivery.session, delivery.rank),
        *(QUEUE_TTL_S, limits.session, limits.principal, limits.target),
    )


def take_delivery(names: keys.Keys, target: str, *, now_ms: int, take_ms: int) -> commands.Command:
    """Take the delivery whose turn it is; no other supervisor gets it for `take_ms`.

    The reply has its id, its body, the number of this attempt and its principal; or the ms until one is due; or nothing
    where none is queued.
    """
    return ("FCALL", "rtas_hook_take_2", *_queue_keys(names, target), now_ms, take_ms, QUEUE_TTL_S)


def reschedule_delivery(names: keys.Keys, target: str, delivery_id: str, *, due_ms: int) -> commands.Command:
    """Make a delivery that was taken due at a later time."""
    return ("FCALL", "rtas_hook_put_back_2", *_queue_keys(names, target), delivery_id, due_ms, QUEUE_TTL_S)


def complete_delivery(names: keys.Keys, target: str, delivery_id: str) -> commands.Command:
    """Remove a delivery that was posted or given up."""
    return (
        *("FCALL", "rtas_hook_settle_2", *_keys_with_delivery(names, target, delivery_id)),
        *(delivery_id, REMEMBER_S),
    )


def _queue_keys(names: keys.Keys, target: str) -> commands.Command:
    """The number of keys and the keys, as FCALL takes them."""
    queue_keys = (
        *(names.hook_due(target), names.hook_bodies(target), names.hook_tries(target)),
        *(names.hook_ready(target), names.hook_later(target), names.hook_order(target)),
        *(names.hook_places(target), names.hook_turns(target)),
    )
    return (len(queue_keys), *queue_keys)


def _keys_with_delivery(names: keys.Keys, target: str, delivery_id: str) -> commands.Command:
    count, *queue_keys = _queue_keys(names, target)
    return (int(count) + 1, *queue_keys, names.hook_done(target, delivery_id))
