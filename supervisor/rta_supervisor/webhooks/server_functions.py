"""Calls of the server functions on the queue of deliveries to one target."""

from typing import Final

from rta_supervisor.transport import commands
from rta_wire import keys

QUEUE_TTL_S: Final = 7 * 24 * 3600
"""How long the queue of a target stays that is in no settings any more."""

REMEMBER_S: Final = 60
"""How long a delivery that is completed is not queued again."""


def add_delivery(
    names: keys.Keys, target: str, delivery_id: str, body: bytes, *, due_ms: int, max_pending: int
) -> commands.Command:
    """Queue a delivery that is neither queued nor completed. The reply has the ids of deliveries that were dropped
    because the queue was full."""
    return (
        *("FCALL", "rtas_hook_add_1", *_keys_with_delivery(names, target, delivery_id)),
        *(delivery_id, body, due_ms, max_pending, QUEUE_TTL_S),
    )


def take_delivery(names: keys.Keys, target: str, *, now_ms: int, take_ms: int) -> commands.Command:
    """Take the delivery that is due first; no other supervisor gets it for `take_ms`.

    The reply has its id, its body and the number of this attempt; or the ms until one is due; or nothing where none is
    queued.
    """
    return ("FCALL", "rtas_hook_take_1", *_queue_keys(names, target), now_ms, take_ms, QUEUE_TTL_S)


def reschedule_delivery(names: keys.Keys, target: str, delivery_id: str, *, due_ms: int) -> commands.Command:
    """Make a delivery that was taken due at a later time."""
    return ("FCALL", "rtas_hook_put_back_1", *_queue_keys(names, target), delivery_id, due_ms)


def complete_delivery(names: keys.Keys, target: str, delivery_id: str) -> commands.Command:
    """Remove a delivery that was posted or given up."""
    return (
        *("FCALL", "rtas_hook_settle_1", *_keys_with_delivery(names, target, delivery_id)),
        *(delivery_id, REMEMBER_S),
    )


def _queue_keys(names: keys.Keys, target: str) -> commands.Command:
    """The number of keys and the keys, as FCALL takes them."""
    return (3, names.hook_due(target), names.hook_bodies(target), names.hook_tries(target))


def _keys_with_delivery(names: keys.Keys, target: str, delivery_id: str) -> commands.Command:
    _, *queue_keys = _queue_keys(names, target)
    return (4, *queue_keys, names.hook_done(target, delivery_id))
