"""Reads the records of sessions by field: what a command costs does not grow with the units of a session. The totals of
units are read for themselves, in parts.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rta_supervisor.diagnostics import log
from rta_supervisor.session import model
from rta_supervisor.session.model import SessionRecord
from rta_supervisor.settings import settings
from rta_supervisor.transport import scanning
from rta_supervisor.transport.failures import classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import pages
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import errors, keys, redis_errors
from rta_wire.control.totals import Totals

UNITS_PER_CALL: Final = 500
CHANGES_LOOKED_AT: Final = 16
"""Latest versions whose changes of state are looked for. Each is queued right after it was written; only those of
supervisors that were killed in between are left."""


class RecordReader:
    """Reads everything that supervisors note about sessions."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config
        self._log = log.get()

    async def read(self, identity: str, properties: Iterable[str] = ()) -> SessionRecord | None:
        """The record of a session, None where there is none. Raises `SpoiltKey` where its state can't be read.

        `properties`: those whose last update the record is to have.
        """
        [record] = await self._read([identity], list(properties))
        if isinstance(record, errors.SpoiltKey):
            raise record
        return record

    async def read_all(self, identities: Sequence[str]) -> list[SessionRecord | errors.SpoiltKey | None]:
        """The records of sessions in one round trip: None for each that there is not, an error for one whose state
        can't be read."""
        return await self._read(identities, [])

    async def _read(
        self, identities: Sequence[str], properties: Sequence[str]
    ) -> list[SessionRecord | errors.SpoiltKey | None]:
        fields = (*model.RECORD_FIELDS, *map(keys.property_field, properties))
        answers = await self._link.try_all(
            [
                call
                for identity in identities
                for call in (
                    ("HMGET", self._keys.session_state(identity), *fields),
                    ("HGET", self._keys.session(identity), keys.JSON),
                )
            ]
        )
        return [
            self._parse(identity, state, document, properties)
            for identity, state, document in zip(identities, answers[::2], answers[1::2], strict=True)
        ]

    def _parse(
        self, identity: str, state: Any, document: Any, properties: Sequence[str]
    ) -> SessionRecord | errors.SpoiltKey | None:
        if isinstance(state, Exception):
            return self._spoilt_or_raise(self._keys.session_state(identity), state)
        if isinstance(document, Exception):
            # The hash is written anew with the next change: nothing in it is needed but for the document.
            self._spoilt_or_raise(self._keys.session(identity), document)
            document = None
        return model.parse_record(identity, state, document, properties)

    def _spoilt_or_raise(self, key: str, error: Exception) -> errors.SpoiltKey:
        """The error about a key that somebody spoilt, logged. Raises any other error."""
        if not is_key_specific(error):
            raise classify(error)
        spoilt = errors.SpoiltKey(key=key, reason=redis_errors.first_line(error))
        self._log.error("session_spoilt", key=key, reason=spoilt.facts["reason"])
        return spoilt

    async def unit_totals(self, identity: str, units: Sequence[str]) -> dict[str, Totals]:
        """The folded totals of those of the units that the session has."""
        state = self._keys.session_state(identity)
        page_units = pages(units, UNITS_PER_CALL)
        answers = await self._link.do_all([("HMGET", state, *map(keys.unit_field, page)) for page in page_units])
        texts = (text for page in answers for text in page)
        return {unit: model.parse_totals(text) for unit, text in zip(units, texts, strict=True) if text is not None}

    async def all_unit_totals(self, identity: str) -> dict[str, Totals]:
        """The folded totals of all units of a session, for people to look at."""
        units: dict[str, Totals] = {}
        state = self._keys.session_state(identity)
        async for page in scanning.scan(self._link, scanning.Collection.HASH, state):
            for field, text in pairs_to_dict(page).items():
                if (name := field.decode()).startswith(keys.UNIT_PREFIX):
                    units[name.removeprefix(keys.UNIT_PREFIX)] = model.parse_totals(text)
        return units

    async def unqueued_changes(self, record: SessionRecord) -> dict[str, str]:
        """Changes of state that are not in the queues of webhooks yet, by version, as the text that stands in Redis."""
        versions = [
            str(version) for version in range(max(record.version - CHANGES_LOOKED_AT, 0) + 1, record.version + 1)
        ]
        state = self._keys.session_state(record.ref.identity)
        notes = await self._link.do("HMGET", state, *map(keys.change_field, versions))
        return {version: note.decode() for version, note in zip(versions, notes, strict=True) if note is not None}
