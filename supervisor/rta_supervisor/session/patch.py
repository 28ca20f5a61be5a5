"""Changes of a session's properties, and which of two came later."""

from collections.abc import Mapping
from typing import Final

import msgspec

from rta_wire import entry_ids, session

STATE: Final = "state"
"""What a pause or its end changes, among the properties that are updated."""


class Patch(msgspec.Struct, frozen=True):
    """Properties to change, and the place of the request in the order of all requests."""

    properties: session.Json
    entry_id: str

    def has_newer(self, updated: Mapping[str, str], *, about_state: bool) -> bool:
        """Whether it says something that no later request has said, and that is not said already."""
        return any(self._is_newer(updated, name) for name in ((STATE,) if about_state else self.properties))

    def newer_properties(self, updated: Mapping[str, str]) -> session.Json:
        """Those of its properties that no later request has set. `updated`: the place of the latest, by property."""
        return {name: value for name, value in self.properties.items() if self._is_newer(updated, name)}

    def _is_newer(self, updated: Mapping[str, str], name: str) -> bool:
        return entry_ids.is_after(self.entry_id, updated.get(name, entry_ids.MIN))
