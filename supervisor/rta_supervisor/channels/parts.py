"""Serves requests for parts of a configuration, for clients that do not find it in Redis."""

from typing import Final

from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.control.entry import ControlEntry
from rta_wire import errors, limits
from rta_wire.pb import control_pb2

PART_BYTES: Final = 512 * limits.KIB
KEPT: Final = 2
"""Configurations that are kept in memory, since a client asks for one part after another."""


class ConfigPartService:
    """Gives configurations in parts."""

    def __init__(self, store: ConfigStore) -> None:
        self._store = store
        self._latest: dict[str, bytes] = {}

    async def get(self, _entry: ControlEntry, request: control_pb2.GetConfig) -> control_pb2.ConfigPart:
        """A part of a configuration, from its offset on."""
        data = await self._whole(request.identifier)
        part = data[request.offset : request.offset + PART_BYTES]
        return control_pb2.ConfigPart(identifier=request.identifier, data=part, size_bytes=len(data))

    async def _whole(self, identifier: str) -> bytes:
        data = self._latest.pop(identifier, None)
        if data is None and (data := await self._store.get(identifier)) is None:
            raise errors.UnknownConfig(identifier=identifier)
        self._latest[identifier] = data
        while len(self._latest) > KEPT:
            del self._latest[next(iter(self._latest))]
        return data
