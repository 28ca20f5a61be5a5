"""Calls of the server functions of publishing."""

from typing import Final

from rta_supervisor.transport import commands
from rta_wire import keys

PUBLISH_TTL_S: Final = 30 * 24 * 3600
"""How long it is known what was published last, after the last supervisor that published."""


def next_sequence(names: keys.Keys, *, last: bytes, floor: int, catalogue: str) -> commands.Command:
    """A sequence above all that were given out, and not below a floor; none where `last` is not the last one.

    `catalogue`: that is published from.
    """
    return ("FCALL", "rtas_publish_next_1", 1, names.publishing(), last, floor, catalogue, PUBLISH_TTL_S)


def write_status(names: keys.Keys, status: bytes) -> commands.Command:
    """Have Redis keep how publishing goes."""
    return ("FCALL", "rtas_publish_status_1", 1, names.publishing(), status, PUBLISH_TTL_S)
