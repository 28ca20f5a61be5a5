"""Changes of a session's properties: which of two came later, and the Session JSON that they lead to. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec

from rta_supervisor.session import config_bindings
from rta_supervisor.session.model import SessionRecord
from rta_wire import entry_ids, session
from rta_wire.session import State

STATE: Final = "state"
"""The name under which a pause or its end is ordered among updates of properties."""


class Patch(msgspec.Struct, frozen=True):
    """Properties that a request changes, and the entry id of the request, by which requests are ordered."""

    properties: session.Json
    entry_id: str
    config: str = ""
    """The identifier of a configuration that the session is bound to by it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The properties that it may change, and the name under which its state is ordered."""
        return (STATE, *self.property_names)

    @property
    def property_names(self) -> tuple[str, ...]:
        """The properties that it may change."""
        return tuple({**self.properties, **({config_bindings.PROPERTY: None} if self.config else {})})

    def has_newer(self, updated: Mapping[str, str], *, about_state: bool) -> bool:
        """Whether it changes something that neither a later request nor this one has changed before.

        `updated`: for each property, the entry id of the request that set it last."""
        return any(self._is_newer(updated, name) for name in ((STATE,) if about_state else self.property_names))

    def newer_properties(self, updated: Mapping[str, str]) -> session.Json:
        """Those of its properties that no later request has set."""
        return {name: value for name, value in self.properties.items() if self._is_newer(updated, name)}

    def binds_newer(self, updated: Mapping[str, str]) -> bool:
        """Whether it binds a configuration, and no later request has changed the bindings."""
        return bool(self.config) and self._is_newer(updated, config_bindings.PROPERTY)

    def _is_newer(self, updated: Mapping[str, str], name: str) -> bool:
        return entry_ids.is_after(self.entry_id, updated.get(name, entry_ids.MIN))


def apply(record: SessionRecord, state: State, update: Patch | None) -> tuple[bytes, dict[str, str]]:
    """The Session JSON of a record after a transition to a state, and the entry id of the update by property changed.

    A property that is set to null is removed.
    """
    document = session.parse(record.document) if record.document else _least_document(record)
    updated: dict[str, str] = {}
    if update is not None:
        properties = update.newer_properties(record.property_entry_ids)
        if update.binds_newer(record.property_entry_ids):
            bindings = config_bindings.bind(document | properties, update.config, record.config)
            properties[config_bindings.PROPERTY] = bindings
        document |= properties
        changed = [STATE, *properties] if state is not record.state else [*properties]
        updated = dict.fromkeys(changed, update.entry_id)
    document = {name: value for name, value in document.items() if value is not None}
    return session.dump(session.with_supervisor_properties(document, state, record.totals.time_range_ns)), updated


def _least_document(record: SessionRecord) -> session.Json:
    """What a Session JSON has to have, for a session whose own somebody removed: it can still be ended."""
    opened_at = session.iso_from_ns(record.opened_ms * 1_000_000)
    identity = record.ref.identity
    return {"identity": identity, "state": record.state.value, "timestamp": opened_at, "identifier": identity}
