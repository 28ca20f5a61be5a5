"""An entry of a control stream, and who handles a batch of them. Pure."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from rta_wire import entry_ids, errors


class ControlEntry(msgspec.Struct, frozen=True):
    """A message as it stands in a control stream. Which stream that is says which principal wrote it."""

    key: str
    """The key of the control stream."""

    principal: str
    id: str
    raw: bytes | None
    """The message; None where the entry has none."""

    is_first_delivery: bool
    """Whether it was never read before. Otherwise it had to wait, or a supervisor read it and did not finish."""

    read_ms: int = entry_ids.PART_MAX
    """When it was read, by the server's clock."""

    read_bytes: int = 0
    """What it took to read it, with fields that are no message."""

    @property
    def size(self) -> int:
        """The bytes of its message."""
        return len(self.raw or b"")

    @property
    def sent_ms(self) -> int:
        """When it was sent: the time in its id, which a client can choose, but never later than it was read."""
        return min(entry_ids.ms_of(self.id), self.read_ms)


class BatchHandler(Protocol):
    """Handles the messages of a kind of control stream."""

    async def handle(self, entries: Sequence[ControlEntry]) -> None:
        """Do what the messages of a batch ask for."""

    async def refuse(self, entry: ControlEntry, error: errors.RtaError) -> None:
        """Add a message that can't be handled to the dead letters."""
