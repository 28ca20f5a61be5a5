"""One change of a session's state: the note that is kept with the session until the change is queued, and the body that
is posted. Pure.
"""

import uuid
from typing import Final

import msgspec

from rta_supervisor.session.model import SessionRecord
from rta_wire import errors, session
from rta_wire.session import State

IDENTIFIER_MAX_CHARS: Final = 256
_NO_STATE: Final = "-"
_NAMESPACE: Final = uuid.UUID("6f0d5c5e-5d0b-4c53-9d43-5a5b8f2f6a10")


class StateChange(msgspec.Struct, frozen=True):
    """A change of state. Until it is queued, a note of it is kept in the folded state of the session, by version."""

    version: int
    state: State
    previous: State | None
    at_ms: int

    def to_note(self) -> str:
        return f"{self.state.value} {self.previous or _NO_STATE} {self.at_ms}"

    @classmethod
    def from_note(cls, version: str, note: str) -> "StateChange":
        state, previous, at_ms = note.split(" ")
        return cls(int(version), State(state), None if previous == _NO_STATE else State(previous), int(at_ms))


class PayloadTotals(msgspec.Struct, frozen=True, rename="camel"):
    """What was written to the session until the change."""

    bursts: int
    samples: int
    raw_bytes: int
    stored_bytes: int


class WebhookPayload(msgspec.Struct, frozen=True, rename="camel"):
    """The body of a post. It stays small whatever the Session JSON holds."""

    id: str
    """The same each time that this change is posted, to every target: a receiver can tell a repetition by it."""

    type: str
    at_ms: int
    identity: str
    identifier: str
    state: State
    previous: State | None
    version: int
    """Of two changes of a session the one with the higher version is the later one, in whichever order they arrive."""

    stream: str
    stream_session_id: int
    opened_ms: int
    time_range: tuple[str, str] | None
    """Start and end in ns, as text: most JSON parsers would round them."""

    totals: PayloadTotals

    @classmethod
    def build(cls, record: SessionRecord, change: StateChange) -> "WebhookPayload":
        ref, totals = record.ref, record.totals
        times_ns = totals.time_range_ns
        name = f"{ref.identity}\n{ref.stream_session_id}\n{change.version}\n{change.state}\n{change.at_ms}"
        return cls(
            id=str(uuid.uuid5(_NAMESPACE, name)),
            type="session.state",
            at_ms=change.at_ms,
            identity=ref.identity,
            identifier=_identifier(record),
            state=change.state,
            previous=change.previous,
            version=change.version,
            stream=ref.stream,
            stream_session_id=ref.stream_session_id,
            opened_ms=record.opened_ms,
            time_range=None if times_ns is None else (str(times_ns[0]), str(times_ns[1])),
            totals=PayloadTotals(totals.bursts, totals.samples, totals.raw_bytes, totals.stored_bytes),
        )


def pending_changes(record: SessionRecord) -> list[StateChange]:
    """Changes of a session that are not queued yet, oldest first."""
    changes = [StateChange.from_note(version, note) for version, note in record.unqueued_changes.items()]
    return sorted(changes, key=lambda change: change.version)


def _identifier(record: SessionRecord) -> str:
    try:
        return str(session.parse(record.document).get("identifier", ""))[:IDENTIFIER_MAX_CHARS]
    except errors.BadSessionJson:
        return ""
