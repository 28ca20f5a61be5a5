"""What stands in Redis of a session, as values: read here from the words of Redis, and nowhere else."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from rta_supervisor.catalogue.model import Row
from rta_supervisor.transport import commands
from rta_wire import keys
from rta_wire.control.totals import Totals
from rta_wire.session import State

Shown = tuple["Ref", bytes]
"""A session and its totals, as they stand in Redis."""


class Ref(msgspec.Struct, frozen=True):
    """Which session, and where its entries stand."""

    identity: str
    stream: str
    stream_session_id: int


class Known(msgspec.Struct, frozen=True):
    """All that is known of a session."""

    ref: Ref
    state: State
    principal: str
    version: int
    opened_ms: int
    totals: Totals
    document: bytes
    """Its Session JSON, as readers have it."""

    updated: dict[str, str]
    """Properties that were updated, each with the place of the update in the order of all requests."""

    lost_data: bool
    units: dict[str, str]
    """Totals of each unit, as the words that stand in Redis."""

    untold: dict[str, str] = {}
    """Changes of state that no webhook's queue has yet, by version, as the words that stand in Redis."""

    @property
    def told(self) -> commands.Told:
        """What its stream is told of it."""
        return commands.Told(self.document, self.version)


class Folded(msgspec.Struct, frozen=True):
    """What became of the reports for one session: 'changed', 'same', 'closed', 'unknown' or 'foreign'."""

    ref: Ref
    outcome: str
    implausible_units: tuple[str, ...] = ()
    owner: str = ""
    """The principal of a session that is foreign to the one who reported."""


def folded(ref: Ref, outcome: str, names: Sequence[bytes]) -> Folded:
    if outcome == "foreign":
        return Folded(ref, outcome, owner=names[0].decode())
    return Folded(ref, outcome, tuple(unit.decode() for unit in names))


def totals_of(words: bytes | None) -> Totals:
    """What is folded of a session; None: nothing yet."""
    return Totals.from_words(words.decode().split()) if words else Totals()


def known(identity: str, raw: Mapping[bytes, bytes], document: bytes | None) -> Known:
    fields = {name.decode(): value.decode() for name, value in raw.items()}
    return Known(
        ref=Ref(identity, fields[keys.STREAM_NAME], int(fields[keys.STREAM_SESSION_ID])),
        state=State(fields["state"]),
        principal=fields["principal"],
        version=int(fields["version"]),
        opened_ms=int(fields["openedMs"]),
        totals=totals_of(raw.get(keys.TOTALS.encode())),
        document=document or b"",
        updated={name[2:]: value for name, value in fields.items() if name.startswith("p:")},
        lost_data="lost" in fields,
        units={name[2:]: value for name, value in fields.items() if name.startswith("u:")},
        untold={name[2:]: value for name, value in fields.items() if name.startswith("t:")},
    )


ROW_FIELDS: Final = (keys.STREAM_NAME, keys.STREAM_SESSION_ID, "principal", "state", "version", "openedMs", keys.TOTALS)


def row(identity: str, fields: Sequence[bytes | None], shown: Sequence[bytes | None], at_ms: int) -> Row:
    """`shown`: JSON and position in the stream, as readers have them."""
    document, position = shown
    stream, number, principal, state, version, opened_ms, totals = fields
    assert stream is not None
    assert principal is not None
    assert state is not None
    return Row(
        identity=identity,
        stream=stream.decode(),
        stream_session_id=int(number or 0),
        principal=principal.decode(),
        state=State(state.decode()),
        json=(document or b"").decode(),
        totals=totals_of(totals),
        version=int(version or 0),
        opened_ms=int(opened_ms or 0),
        updated_ms=at_ms,
        position=(position or b"0-0").decode(),
    )
