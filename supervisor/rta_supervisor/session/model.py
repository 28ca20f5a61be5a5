"""A session as values: what identifies it, its record in Redis, and the outcome of reports. Parses the replies of
Redis; sends nothing.
"""

import enum
from collections.abc import Mapping, Sequence

import msgspec

from rta_wire import keys
from rta_wire.control.totals import Totals
from rta_wire.session import State

Published = tuple["SessionRef", bytes]
"""An open session and its totals, as the text that stands in Redis."""


class SessionRef(msgspec.Struct, frozen=True):
    """Which session, and which entries of which stream are its own."""

    identity: str
    stream: str
    stream_session_id: int


class SessionRecord(msgspec.Struct, frozen=True):
    """Everything that Redis holds about a session, but for its marks and what was published in its stream."""

    ref: SessionRef
    state: State
    principal: str
    version: int
    """Raised by one with every change of state or JSON."""

    opened_ms: int
    document: bytes
    """Its Session JSON, as readers have it."""

    totals: Totals = Totals()
    property_entry_ids: dict[str, str] = {}
    """For each property that was updated, the entry id of the request that set it last."""

    lost_data: bool = False
    external_id: str = ""
    """The external id that it was opened with; empty where there is none, or an older supervisor opened it."""

    unit_totals: dict[str, str] = {}
    """Totals of each unit, as the text that stands in Redis."""

    unqueued_changes: dict[str, str] = {}
    """Changes of state that are not in the queues of webhooks yet, by version, as the text that stands in Redis."""


class FoldOutcome(enum.StrEnum):
    """What became of the reports for one session."""

    CHANGED = "changed"
    SAME = "same"
    """The folded state contained everything in them already."""

    CLOSED = "closed"
    """The session is closed: nothing is folded any more."""

    UNKNOWN = "unknown"
    FOREIGN = "foreign"
    """The session belongs to another principal than the one that reported."""

    @property
    def is_accepted(self) -> bool:
        """Whether the reports are in the folded state now."""
        return self is FoldOutcome.CHANGED or self is FoldOutcome.SAME


class FoldResult(msgspec.Struct, frozen=True):
    """The answer to the reports for one session."""

    ref: SessionRef
    outcome: FoldOutcome
    implausible_units: tuple[str, ...] = ()
    owner: str = ""
    """The principal of a foreign session."""


def parse_fold_result(ref: SessionRef, outcome: FoldOutcome, names: Sequence[bytes]) -> FoldResult:
    """What became of the reports for a session, from the reply to a fold.

    `names`: the owner of a foreign session, else units whose totals are implausible.
    """
    if outcome is FoldOutcome.FOREIGN:
        return FoldResult(ref, outcome, owner=names[0].decode())
    return FoldResult(ref, outcome, tuple(unit.decode() for unit in names))


def parse_totals(text: bytes | None) -> Totals:
    """The folded totals of a session, from their text in Redis; all zero where nothing is folded yet."""
    return Totals.from_strings(text.decode().split()) if text else Totals()


def parse_record(identity: str, raw: Mapping[bytes, bytes], document: bytes | None) -> SessionRecord:
    """The record of a session, from its folded state `raw` and the Session JSON of its hash."""
    fields = {name.decode(): value.decode() for name, value in raw.items()}
    return SessionRecord(
        ref=SessionRef(identity, fields[keys.STREAM_NAME], int(fields[keys.STREAM_SESSION_ID])),
        state=State(fields[keys.STATE]),
        principal=fields[keys.PRINCIPAL],
        version=int(fields[keys.VERSION]),
        opened_ms=int(fields[keys.OPENED_MS]),
        document=document or b"",
        totals=parse_totals(raw.get(keys.TOTALS.encode())),
        property_entry_ids=_prefixed(fields, keys.PROPERTY_PREFIX),
        lost_data=keys.LOST in fields,
        external_id=fields.get(keys.EXTERNAL_ID, ""),
        unit_totals=_prefixed(fields, keys.UNIT_PREFIX),
        unqueued_changes=_prefixed(fields, keys.CHANGE_PREFIX),
    )


def _prefixed(fields: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Fields whose name starts with a prefix, by the rest of the name."""
    return {name.removeprefix(prefix): value for name, value in fields.items() if name.startswith(prefix)}
