"""Calls of the server functions on cold streams and their index. None changes anything after the end of the lease."""

from rta_supervisor.transport import commands
from rta_wire import entry_ids, keys


def append_batch(stream: str, entry_id: str, before: str, batch: bytes, *, until_ms: int) -> commands.Command:
    """Add a batch to the cold stream, if the batch `before` is its last. The reply is whether it was added."""
    return ("FCALL", "rtas_freeze_1", 1, keys.cold_stream(stream), entry_id, before, keys.COLD_FIELD, batch, until_ms)


def remove_batch(stream: str, entry_id: str, *, until_ms: int) -> commands.Command:
    """Remove a batch from the cold stream. The reply is whether it was there."""
    return ("FCALL", "rtas_take_out_1", 1, keys.cold_stream(stream), entry_id, until_ms)


def replace_index_entry(
    names: keys.Keys, stream: str, before: bytes, after: bytes, *, until_ms: int
) -> commands.Command:
    """Replace the index entry of a stream, if it is `before`. Empty bytes stand for no entry.

    The reply is whether it was replaced.
    """
    return ("FCALL", "rtas_switch_1", 1, names.cold_index(), stream, before, after, until_ms)


def trim_live(stream: str, through: str, *, until_ms: int) -> commands.Command:
    """Remove entries up to an id from the live stream. The reply is how many; -1 if the lease is over."""
    return ("FCALL", "rtas_shed_1", 1, keys.stream(stream), entry_ids.next_id(through), until_ms)
