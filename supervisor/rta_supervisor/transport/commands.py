"""Commands as tuples, to be sent alone or in a batch. Sends nothing itself."""

from typing import Final

Argument = str | bytes | int | float
Command = tuple[Argument, ...]

FOREVER: Final = 0
"""The end of a lease for commands that need none."""
