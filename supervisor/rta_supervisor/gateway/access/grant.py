"""What a viewer may see: the streams whose names begin with one of its prefixes. Pure."""

from typing import Final

import msgspec

EVERYTHING: Final = "*"
"""The prefix that stands for all streams in token files and claims."""


class Grant(msgspec.Struct, frozen=True):
    """What somebody may see, under a name for logs and limits. A JWT ends, other grants end with their token."""

    name: str
    prefixes: tuple[str, ...]
    expires_s: float | None = None
    """Time since the epoch."""
    proof: bytes = b""
    """Stands for the token, or for the key that signed it: the grant ends where that is taken away."""

    def may_see(self, stream: str) -> bool:
        """Whether sessions of a stream exist for whoever has this grant."""
        return any(prefix == EVERYTHING or stream.startswith(prefix) for prefix in self.prefixes)


LOCAL: Final = Grant("local", (EVERYTHING,))
"""For everybody, where no token is needed."""
