"""What stands in Redis of a session, as values: read here from the words of Redis, and nowhere else."""

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


class FoldResult(msgspec.Struct, frozen=True):
    """What became of the reports for one session: 'changed', 'same', 'closed', 'unknown' or 'foreign'."""

    ref: SessionRef
    outcome: str
    implausible_units: tuple[str, ...] = ()
    owner: str = ""
    """The principal of a session that is foreign to the one who reported."""


def parse_fold_result(ref: SessionRef, outcome: str, names: Sequence[bytes]) -> FoldResult:
    if outcome == "foreign":
        return FoldResult(ref, outcome, owner=names[0].decode())
    return FoldResult(ref, outcome, tuple(unit.decode() for unit in names))


def parse_totals(words: bytes | None) -> Totals:
    """What is folded of a session; None: nothing yet."""
    return Totals.from_words(words.decode().split()) if words else Totals()


def parse_record(identity: str, raw: Mapping[bytes, bytes], document: bytes | None) -> SessionRecord:
    fields = {name.decode(): value.decode() for name, value in raw.items()}
    return SessionRecord(
        ref=SessionRef(identity, fields[keys.STREAM_NAME], int(fields[keys.STREAM_SESSION_ID])),
        state=State(fields["state"]),
        principal=fields["principal"],
        version=int(fields["version"]),
        opened_ms=int(fields["openedMs"]),
        totals=parse_totals(raw.get(keys.TOTALS.encode())),
        document=document or b"",
        property_entry_ids={name[2:]: value for name, value in fields.items() if name.startswith("p:")},
        lost_data="lost" in fields,
        unit_totals={name[2:]: value for name, value in fields.items() if name.startswith("u:")},
        unqueued_changes={name[2:]: value for name, value in fields.items() if name.startswith("t:")},
    )
