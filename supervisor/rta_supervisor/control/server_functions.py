"""Calls of the server functions on control streams: groups, acknowledgement, replies, dead letters, payloads."""

from collections.abc import Mapping, Sequence

from rta_supervisor.transport import commands
from rta_wire import entry_ids, keys, limits
from rta_wire.control import payload
from rta_wire.pb import control_pb2


def create_group(names: keys.Keys, key: str) -> commands.Command:
    """Create the consumer group of a control stream and its counters, if there is none."""
    return _group_call("rtas_begin_1", names, key)


def acknowledge(names: keys.Keys, key: str, ids: Sequence[str]) -> commands.Command:
    """Acknowledge and remove entries of a control stream. `ids` in the order of the stream."""
    return _group_call("rtas_settle_1", names, key, entry_ids.next_id(ids[-1]), *ids)


def count_evicted(names: keys.Keys, key: str) -> commands.Command:
    """Count the entries of a control stream that were evicted before anybody read them, since the last call."""
    return _group_call("rtas_missing_1", names, key)


def remove_consumer(names: keys.Keys, key: str, consumer: str) -> commands.Command:
    """Remove a consumer from the group, if it has no messages."""
    return _group_call("rtas_retire_1", names, key, consumer)


def add_dead_letter(
    names: keys.Keys, owner: str, fields: Mapping[bytes, commands.Argument], *, max_entries: int
) -> commands.Command:
    """Keep a message that could not be handled. `owner`: whose letters are counted; beyond `max_entries` of them the
    oldest are removed, and the reply says how many."""
    flat = [part for pair in fields.items() for part in pair]
    return ("FCALL", "rtas_letter_add_1", 2, names.dead_letters(), names.dead_letter_ids(owner), max_entries, *flat)


def resend_letter(names: keys.Keys, key: str, letter_id: str, raw: bytes, *, ttl_s: int) -> commands.Command:
    """Add the message of a dead letter to a control stream again, once. `ttl_s`: how long it is known that it was."""
    arguments = (raw, limits.CONTROL_MAX_ENTRIES, ttl_s)
    return ("FCALL", "rtas_again_1", 2, key, names.resent_marker(key, letter_id), *arguments)


def reply(names: keys.Keys, request_id: str, raw: bytes, *, ttl_s: int) -> commands.Command:
    """Reply to a request, unless it has a reply."""
    return ("FCALL", "rtas_reply_1", 1, names.reply(request_id), raw, ttl_s)


def store_piece(
    names: keys.Keys,
    principal: str,
    piece: control_pb2.StorePiece,
    *,
    ttl_s: int,
    counts_bytes: int,
    max_bytes: int,
) -> commands.Command:
    """Store a piece of a payload. `counts_bytes`: what it takes of the `max_bytes` of its principal."""
    names_ = (names.payloads(principal), names.payload(principal, piece.payload_id))
    arguments = (piece.payload_id, piece.number, payload.seal(piece), ttl_s, counts_bytes, max_bytes)
    return ("FCALL", "rtas_piece_store_1", 2, *names_, *arguments)


def remove_payload(names: keys.Keys, principal: str, payload_id: str) -> commands.Command:
    """Remove all pieces of a payload."""
    names_ = (names.payloads(principal), names.payload(principal, payload_id))
    return ("FCALL", "rtas_payload_remove_1", 2, *names_, payload_id)


def _group_call(function: str, names: keys.Keys, key: str, *arguments: commands.Argument) -> commands.Command:
    return ("FCALL", function, 2, key, names.control_counters(key), keys.CONTROL_GROUP, *arguments)
