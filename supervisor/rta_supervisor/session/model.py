"""What stands in Redis of a session, as values: read here from the words of Redis, and nowhere else."""

import enum
from collections.abc import Mapping, Sequence

import msgspec

from rta_supervisor.session import functions
from rta_wire import keys
from rta_wire.control.totals import Totals
from rta_wire.session import State

Published = tuple["SessionRef", bytes]
"""A session and its totals, as they stand in Redis."""


class SessionRef(msgspec.Struct, frozen=True):
    """Which session, and where its entries stand."""

    identity: str
    stream: str
    stream_session_id: int


class SessionRecord(msgspec.Struct, frozen=True):
    """All that is known of a session."""

    ref: SessionRef
    state: State
    principal: str
    version: int
    opened_ms: int
    totals: Totals
    document: bytes
    """Its Session JSON, as readers have it."""

    property_entry_ids: dict[str, str]
    """Properties that were updated, each with the place of the update in the order of all requests."""

    lost_data: bool
    unit_totals: dict[str, str]
    """Totals of each unit, as the words that stand in Redis."""

    unqueued_changes: dict[str, str] = {}
    """Changes of state that no webhook's queue has yet, by version, as the words that stand in Redis."""

    @property
    def versioned_json(self) -> functions.VersionedJson:
        """What its stream is told of it."""
        return functions.VersionedJson(self.document, self.version)


class FoldOutcome(enum.StrEnum):
    """What became of the reports for one session."""

    CHANGED = "changed"
    SAME = "same"
    """Everything in them was known."""

    CLOSED = "closed"
    """The session has ended: nothing is folded any more."""

    UNKNOWN = "unknown"
    FOREIGN = "foreign"
    """The session belongs to another principal than the one that reported."""

    @property
    def is_accepted(self) -> bool:
        """Whether the reports are in the folded state now."""
        return self in (FoldOutcome.CHANGED, FoldOutcome.SAME)


class FoldResult(msgspec.Struct, frozen=True):
    """The answer to the reports for one session."""

    ref: SessionRef
    outcome: FoldOutcome
    implausible_units: tuple[str, ...] = ()
    owner: str = ""
    """The principal of a foreign session."""


def parse_fold_result(ref: SessionRef, outcome: FoldOutcome, names: Sequence[bytes]) -> FoldResult:
    """`names`: the owner of a foreign session, else units whose totals are implausible."""
    if outcome is FoldOutcome.FOREIGN:
        return FoldResult(ref, outcome, owner=names[0].decode())
    return FoldResult(ref, outcome, tuple(unit.decode() for unit in names))


def parse_totals(words: bytes | None) -> Totals:
    """What is folded of a session; None: nothing yet."""
    return Totals.from_words(words.decode().split()) if words else Totals()


def parse_record(identity: str, raw: Mapping[bytes, bytes], document: bytes | None) -> SessionRecord:
    fields = {name.decode(): value.decode() for name, value in raw.items()}
    return SessionRecord(
        ref=SessionRef(identity, fields[keys.STREAM_NAME], int(fields[keys.STREAM_SESSION_ID])),
        state=State(fields[keys.STATE]),
        principal=fields[keys.PRINCIPAL],
        version=int(fields[keys.VERSION]),
        opened_ms=int(fields[keys.OPENED_MS]),
        totals=parse_totals(raw.get(keys.TOTALS.encode())),
        document=document or b"",
        property_entry_ids=_prefixed(fields, keys.PROPERTY_PREFIX),
        lost_data=keys.LOST in fields,
        unit_totals=_prefixed(fields, keys.UNIT_PREFIX),
        unqueued_changes=_prefixed(fields, keys.CHANGE_PREFIX),
    )


def _prefixed(fields: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in fields.items() if name.startswith(prefix)}
