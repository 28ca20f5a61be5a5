"""Calls of the server functions of this package: the first id of a stream, and the counts of a slot of the history."""

from collections.abc import Mapping

from rta_supervisor.transport import commands
from rta_wire import keys


def first_id(stream: str) -> commands.Command:
    """Reads the id of the first entry of a stream without its data, which may be large. Nil if the stream is empty."""
    return ("FCALL", "rtas_first_id_1", 1, keys.stream(stream))


def add_counts(
    names: keys.Keys, slot_s: int, number: int, counts: Mapping[str, int], *, ttl_s: int
) -> commands.Command:
    """Adds counts to those of a slot of the history, and sets how long the slot is kept."""
    arguments = (argument for pair in counts.items() for argument in pair)
    return ("FCALL", "rtas_count_2", 1, names.history_slot(slot_s, number), ttl_s, *arguments)
