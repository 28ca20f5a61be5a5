"""Commands as tuples of words, ready to be sent one by one or packed together. Sends nothing itself."""

from typing import Final

from rta_wire import keys

Argument = str | bytes | int | float
Command = tuple[Argument, ...]


FOREVER: Final = 0
"""The end of a lease for what needs none."""


def session_call(function: str, names: keys.Keys, identity: str, *args: Argument) -> Command:
    return ("FCALL", function, 2, names.session(identity), names.session_state(identity), *args)
