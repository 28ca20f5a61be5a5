"""Commands as tuples, to be sent alone or in a batch. Sends nothing itself."""

from typing import Final

from rta_wire import keys

Argument = str | bytes | int | float
Command = tuple[Argument, ...]

FOREVER: Final = 0
"""The end of a lease for commands that need none."""


def session_call(function: str, names: keys.Keys, identity: str, *args: Argument) -> Command:
    """A call of a server function on the two hashes of a session."""
    return ("FCALL", function, 2, names.session(identity), names.session_state(identity), *args)
