"""Calls of the server functions on cold streams and their index."""

from rta_supervisor.transport import commands
from rta_wire import entry_ids, keys


def append_batch(stream: str, entry_id: str, before: str, batch: bytes, *, until_ms: int) -> commands.Command:
    """A batch for the cold stream, after the one that ends it now."""
    return ("FCALL", "rtas_freeze_1", 1, keys.cold_stream(stream), entry_id, before, keys.COLD_FIELD, batch, until_ms)


def remove_batch(stream: str, entry_id: str, *, until_ms: int) -> commands.Command:
    return ("FCALL", "rtas_take_out_1", 1, keys.cold_stream(stream), entry_id, until_ms)


def replace_index_entry(
    names: keys.Keys, stream: str, before: bytes, after: bytes, *, until_ms: int
) -> commands.Command:
    """What the index says of a stream, if it said `before`; empty: nothing."""
    return ("FCALL", "rtas_switch_1", 1, names.cold_index(), stream, before, after, until_ms)


def trim_live(stream: str, through: str, *, until_ms: int) -> commands.Command:
    """Entries up to an id, out of the live stream."""
    return ("FCALL", "rtas_shed_1", 1, keys.stream(stream), entry_ids.next_id(through), until_ms)
