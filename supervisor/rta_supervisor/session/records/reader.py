"""Reads the records of sessions by field: what a command costs does not grow with the units of a session. The totals of
units are read for themselves, in parts.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from rta_supervisor.diagnostics import log
from rta_supervisor.session import model
from rta_supervisor.session.model import SessionRecord
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, scanning
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

    async def call_and_read(
        self, call: commands.Command, identity: str, properties: Iterable[str] = (), *, changes_until: int = 0
    ) -> tuple[Any, SessionRecord | None]:
        """The reply to a command on the keys of a session, and the record as it stands after it, in one round trip.

        In a Cluster it takes two: while a slot moves, the command may have to wait and a read be answered before it.
        `changes_until`: the latest version whose unqueued changes of state the record is to have.
        """
        names = list(properties)
        versions = _versions_looked_at(changes_until)
        reads = [*self._read_commands(identity, names), *self._changes_commands(identity, versions)]
        batches = [[call], reads] if self._link.is_cluster else [[call, *reads]]
        replies = [reply for batch in batches for reply in await self._link.try_all(batch)]
        reply, state, document, *changes = replies
        for answer in (reply, *changes):
            if isinstance(answer, Exception):
                raise classify(answer)
        record = self._parse(identity, state, document, names)
        if isinstance(record, errors.SpoiltKey):
            raise record
        if record is not None and changes:
            record = msgspec.structs.replace(record, unqueued_changes=_changes_by_version(versions, changes[0]))
        return reply, record

    async def read_all(self, identities: Sequence[str]) -> list[SessionRecord | errors.SpoiltKey | None]:
        """The records of sessions in one round trip: None for each that there is not, an error for one whose state
        can't be read."""
        return await self._read(identities, [])

    async def _read(
        self, identities: Sequence[str], properties: Sequence[str]
    ) -> list[SessionRecord | errors.SpoiltKey | None]:
        answers = await self._link.try_all(
            [command for identity in identities for command in self._read_commands(identity, properties)]
        )
        return [
            self._parse(identity, state, document, properties)
            for identity, state, document in zip(identities, answers[::2], answers[1::2], strict=True)
        ]

    def _read_commands(self, identity: str, properties: Sequence[str]) -> tuple[commands.Command, commands.Command]:
        fields = (*model.RECORD_FIELDS, *map(keys.property_field, properties))
        return (
            ("HMGET", self._keys.session_state(identity), *fields),
            ("HGET", self._keys.session(identity), keys.JSON),
        )

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
        versions = _versions_looked_at(record.version)
        [notes] = await self._link.do_all(self._changes_commands(record.ref.identity, versions))
        return _changes_by_version(versions, notes)

    def _changes_commands(self, identity: str, versions: Sequence[str]) -> list[commands.Command]:
        """The command that reads the changes of state of versions; none where there are no versions."""
        if not versions:
            return []
        return [("HMGET", self._keys.session_state(identity), *map(keys.change_field, versions))]


def _versions_looked_at(latest: int) -> list[str]:
    return [str(version) for version in range(max(latest - CHANGES_LOOKED_AT, 0) + 1, latest + 1)]


def _changes_by_version(versions: Sequence[str], notes: Sequence[bytes | None]) -> dict[str, str]:
    return {version: note.decode() for version, note in zip(versions, notes, strict=True) if note is not None}
