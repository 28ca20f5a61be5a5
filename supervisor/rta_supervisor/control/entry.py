"""An entry of a control stream, what becomes of a batch of entries, and who handles them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import entry_ids, errors, keys


class ControlEntry(msgspec.Struct, frozen=True):
    """A message as it stands in a control stream. Which stream that is says which principal wrote it."""

    key: str
    """The key of the control stream."""

    principal: str
    id: str
    raw: bytes | None
    """The message; None where the entry has none."""

    is_first_delivery: bool
    """Whether it was never read before. Otherwise it was deferred, or a supervisor read it and did not finish."""

    @property
    def sent_ms(self) -> int:
        return entry_ids.ms_of(self.id)


class BatchResult(msgspec.Struct, frozen=True):
    """What became of a batch: entries to acknowledge, and entries to handle again later."""

    handled: Sequence[ControlEntry]
    deferred: Sequence[ControlEntry] = ()


class Handler(Protocol):
    """Handles the messages of a kind of control stream."""

    async def handle(self, entries: Sequence[ControlEntry]) -> BatchResult:
        """Handle a batch of messages. Gives which of them to acknowledge, and which to handle again later."""

    async def refuse(self, entry: ControlEntry, error: errors.RtaError) -> None:
        """Add a message that can't be handled to the dead letters, and reply to it where it wants a reply."""


def message_in(fields: Sequence[bytes] | None) -> bytes | None:
    """The message in the fields of an entry; None where it has none, as an entry that was deleted meanwhile."""
    if fields is not None and len(fields) == 2 and fields[0] == keys.CONTROL_FIELD:
        return fields[1]
    return pairs_to_dict(fields or ()).get(keys.CONTROL_FIELD)
