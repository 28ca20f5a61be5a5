"""A message as it stands in a control stream, and what becomes of a batch of them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import entry_ids, errors, keys


class ControlEntry(msgspec.Struct, frozen=True):
    """One message as it stands in a control stream. The stream says who wrote it."""

    key: str
    principal: str
    id: str
    raw: bytes | None
    is_first_delivery: bool
    """Read for the first time. Otherwise it waits for something, or another supervisor left it."""

    @property
    def sent_ms(self) -> int:
        return entry_ids.ms_of(self.id)


class BatchResult(msgspec.Struct, frozen=True):
    """What became of a batch: entries to acknowledge, and others that have to wait for something."""

    handled: Sequence[ControlEntry]
    deferred: Sequence[ControlEntry] = ()


class Handler(Protocol):
    """What a lane does with messages."""

    async def handle(self, entries: Sequence[ControlEntry]) -> BatchResult: ...

    async def refuse(self, entry: ControlEntry, error: errors.RtaError) -> None:
        """Tell everybody whom it concerns that a message can't be handled."""


def message_of(fields: Sequence[bytes] | None) -> bytes | None:
    """The one field that an entry of a control stream has. An entry that was deleted has none."""
    if fields is not None and len(fields) == 2 and fields[0] == keys.CONTROL_FIELD:
        return fields[1]
    return pairs_to_dict(fields or ()).get(keys.CONTROL_FIELD)
