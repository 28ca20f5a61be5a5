"""Calls of the server functions on control streams: groups, acknowledgement, replies, dead letters; and the XADD that
adds a dead letter.
"""

from collections.abc import Sequence

from rta_supervisor.transport import commands
from rta_wire import entry_ids, keys, limits


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
    names: keys.Keys, *, source: str, entry: str, code: str, reason: str, message: bytes, max_entries: int
) -> commands.Command:
    """Keep a message that could not be handled. `source`: the key it came from, `entry`: its id there."""
    fields = (
        *(keys.LETTER_SOURCE, source, keys.LETTER_ENTRY, entry, keys.LETTER_CODE, code),
        *(keys.LETTER_REASON, reason, keys.CONTROL_FIELD, message),
    )
    return ("XADD", names.dead_letters(), "MAXLEN", "~", max_entries, "*", *fields)


def resend_letter(names: keys.Keys, key: str, letter_id: str, raw: bytes, *, ttl_s: int) -> commands.Command:
    """Add the message of a dead letter to a control stream again, once. `ttl_s`: how long it is known that it was."""
    arguments = (raw, limits.CONTROL_MAX_ENTRIES, ttl_s)
    return ("FCALL", "rtas_again_1", 2, key, names.resent_marker(key, letter_id), *arguments)


def reply(names: keys.Keys, request_id: str, raw: bytes, *, ttl_s: int) -> commands.Command:
    """Reply to a request, unless it has a reply."""
    return ("FCALL", "rtas_reply_1", 1, names.reply(request_id), raw, ttl_s)


def _group_call(function: str, names: keys.Keys, key: str, *arguments: commands.Argument) -> commands.Command:
    return ("FCALL", function, 2, key, names.control_counters(key), keys.CONTROL_GROUP, *arguments)
