"""A session as values: what identifies it, its record in Redis, and the outcome of reports. Parses the replies of
Redis; sends nothing.
"""

import enum
from collections.abc import Sequence
from typing import Final

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
    """What Redis holds about a session and what does not grow with its units: neither their totals nor their marks."""

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
    """The entry id of the request that set a property last, for those properties that were asked for and updated."""

    lost_data: bool = False
    external_id: str = ""
    """The external id that it was opened with; empty where there is none, or an older supervisor opened it."""

    config: str = ""
    """The identifier of the configuration that a client bound it to."""

    unqueued_changes: dict[str, str] = {}
    """Changes of state of a new session that are not in the queues of webhooks yet, by version, as the text that stands
    in Redis."""

    unit_count: int = 0
    """How many units have reported or left a mark; 0 where an older supervisor opened the session: it counts none."""

    property_count: int = 0
    """How many properties were ever updated."""

    spoilt: str = ""
    """What of the session can't be read, as a sentence; empty where everything can."""


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

    SPOILT = "spoilt"
    """Something else stands in place of the folded state."""

    @property
    def is_accepted(self) -> bool:
        """Whether the reports are in the folded state now."""
        return self is FoldOutcome.CHANGED or self is FoldOutcome.SAME


class FoldResult(msgspec.Struct, frozen=True):
    """The answer to the reports for one session."""

    ref: SessionRef
    outcome: FoldOutcome
    implausible_units: tuple[str, ...] = ()
    surplus_units: tuple[str, ...] = ()
    """Units that were left out because the session has as many as it may have."""
    owner: str = ""
    """The principal of a foreign session."""


def parse_fold_result(
    ref: SessionRef, outcome: FoldOutcome, names: Sequence[bytes], surplus: Sequence[bytes] = ()
) -> FoldResult:
    """What became of the reports for a session, from the reply to a fold.

    `names`: the owner of a foreign session, else units whose totals are implausible.
    """
    if outcome is FoldOutcome.FOREIGN:
        return FoldResult(ref, outcome, owner=names[0].decode())
    return FoldResult(ref, outcome, _decode_all(names), _decode_all(surplus))


def join_fold_results(results: Sequence[FoldResult]) -> FoldResult:
    """What became of the reports for one session that were folded in several calls."""
    if len(results) == 1:
        return results[0]
    changed = next((result for result in results if result.outcome is FoldOutcome.CHANGED), results[0])
    return FoldResult(
        changed.ref,
        changed.outcome,
        tuple(unit for result in results for unit in result.implausible_units),
        tuple(unit for result in results for unit in result.surplus_units),
        owner=changed.owner,
    )


def _decode_all(names: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(name.decode() for name in names)


def parse_totals(text: bytes | None) -> Totals:
    """The folded totals of a session, from their text in Redis; all zero where nothing is folded yet."""
    return Totals.from_strings(text.decode().split()) if text else Totals()


RECORD_FIELDS: Final = (
    keys.STREAM_NAME,
    keys.STREAM_SESSION_ID,
    keys.STATE,
    keys.PRINCIPAL,
    keys.VERSION,
    keys.OPENED_MS,
    keys.TOTALS,
    keys.LOST,
    keys.EXTERNAL_ID,
    keys.UNIT_COUNT,
    keys.PROPERTY_COUNT,
    keys.SPOILT,
    keys.CONFIG,
)
"""Fields of the folded state that a record has, whatever the session."""


def parse_record(
    identity: str, values: Sequence[bytes | None], document: bytes | None, properties: Sequence[str] = ()
) -> SessionRecord | None:
    """The record of a session; None where there is none.

    `values`: those of `RECORD_FIELDS` and of the fields of `properties`. `document`: the Session JSON of its hash.
    """
    fields = {name: "" if raw is None else raw.decode() for name, raw in zip(RECORD_FIELDS, values, strict=False)}
    if not fields[keys.STREAM_NAME]:
        return None
    entry_ids = zip(properties, values[len(RECORD_FIELDS) :], strict=True)
    return SessionRecord(
        ref=SessionRef(identity, fields[keys.STREAM_NAME], int(fields[keys.STREAM_SESSION_ID])),
        state=State(fields[keys.STATE]),
        principal=fields[keys.PRINCIPAL],
        version=int(fields[keys.VERSION]),
        opened_ms=int(fields[keys.OPENED_MS]),
        document=document or b"",
        totals=parse_totals(fields[keys.TOTALS].encode()),
        property_entry_ids={name: raw.decode() for name, raw in entry_ids if raw is not None},
        lost_data=bool(fields[keys.LOST]),
        external_id=fields[keys.EXTERNAL_ID],
        unit_count=int(fields[keys.UNIT_COUNT] or 0),
        property_count=int(fields[keys.PROPERTY_COUNT] or 0),
        spoilt=fields[keys.SPOILT],
        config=fields[keys.CONFIG],
    )
