"""One change of a session's state: the note that is kept with it until it is queued, and what is posted. Pure."""

import hashlib
import hmac
import uuid
from typing import Final

import msgspec

from rta_supervisor.session.model import SessionRecord
from rta_wire import errors, session
from rta_wire.session import State

FIELD_PREFIX: Final = "t:"
IDENTIFIER_MAX_CHARS: Final = 256
_NOBODY: Final = "-"
_NAMESPACE: Final = uuid.UUID("6f0d5c5e-5d0b-4c53-9d43-5a5b8f2f6a10")


class StateChange(msgspec.Struct, frozen=True):
    """A change as it stands in the session's folded state, written in the same step as the change itself."""

    version: int
    state: State
    previous: State | None
    at_ms: int

    def to_field(self) -> tuple[str, str]:
        """Field and value."""
        return f"{FIELD_PREFIX}{self.version}", f"{self.state.value} {self.previous or _NOBODY} {self.at_ms}"

    @classmethod
    def from_field(cls, version: str, text: str) -> "StateChange":
        state, previous, at_ms = text.split(" ")
        return cls(int(version), State(state), None if previous == _NOBODY else State(previous), int(at_ms))


class PayloadTotals(msgspec.Struct, frozen=True, rename="camel"):
    bursts: int
    samples: int
    raw_bytes: int
    stored_bytes: int


class WebhookPayload(msgspec.Struct, frozen=True, rename="camel"):
    """What is posted. Small whatever the session's JSON holds."""

    id: str
    """The same each time that this change is posted, to whomever: by it a receiver knows what it has seen."""

    type: str
    at_ms: int
    identity: str
    identifier: str
    state: State
    previous: State | None
    version: int
    """Of two changes of a session the one with the higher version came later, in whichever order they arrive."""

    stream: str
    stream_session_id: int
    opened_ms: int
    time_range: tuple[str, str] | None
    """Start and end in ns, as text: most JSON parsers would round them."""

    totals: PayloadTotals

    @classmethod
    def build(cls, known: SessionRecord, note: StateChange) -> "WebhookPayload":
        ref, totals = known.ref, known.totals
        times_ns = totals.time_range_ns
        name = f"{ref.identity}\n{ref.stream_session_id}\n{note.version}\n{note.state}\n{note.at_ms}"
        return cls(
            id=str(uuid.uuid5(_NAMESPACE, name)),
            type="session.state",
            at_ms=note.at_ms,
            identity=ref.identity,
            identifier=_identifier(known),
            state=note.state,
            previous=note.previous,
            version=note.version,
            stream=ref.stream,
            stream_session_id=ref.stream_session_id,
            opened_ms=known.opened_ms,
            time_range=None if times_ns is None else (str(times_ns[0]), str(times_ns[1])),
            totals=PayloadTotals(totals.bursts, totals.samples, totals.raw_bytes, totals.stored_bytes),
        )


def pending_changes(known: SessionRecord) -> list[StateChange]:
    """Changes of a session that are not queued yet, oldest first."""
    return sorted(
        (StateChange.from_field(*item) for item in known.unqueued_changes.items()), key=lambda note: note.version
    )


def _identifier(known: SessionRecord) -> str:
    try:
        return str(session.parse(known.document).get("identifier", ""))[:IDENTIFIER_MAX_CHARS]
    except errors.BadSessionJson:
        return ""


SIGNATURE_HEADER: Final = "Rta-Signature"


def sign(secret: bytes, body: bytes, at_s: int) -> str:
    """The header's value. The time is signed with the body: what was recorded once can't be replayed later."""
    digest = hmac.new(secret, b"%d.%s" % (at_s, body), hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"
