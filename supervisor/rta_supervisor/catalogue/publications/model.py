"""Values of the tables of publications: what is due to be told of a session, and what came of it. Pure."""

import msgspec

from rta_wire.session import State

NOTHING_DELIVERED: int = -1
"""The delivered version of a session of which the service knows nothing, or nothing that can be relied on."""


class DuePublication(msgspec.Struct, frozen=True):
    """A session as the catalogue has it now, and what the service was told of it last."""

    identity: str
    stream_session_id: int
    principal: str
    version: int
    state: State
    json: str
    """Empty where it is long and its version was delivered."""
    start_ns: int | None
    end_ns: int | None
    told_version: int
    told_state: str
    told_digest: str
    told_start_ns: int | None
    told_end_ns: int | None
    categories: tuple[str, ...]
    """Every category of details that the service may have of the session."""
    told_ms: int
    noted_ms: int

    @property
    def is_described(self) -> bool:
        """Whether the service has this version in this state."""
        return (self.told_version, self.told_state) == (self.version, self.state.value)

    @property
    def has_grown(self) -> bool:
        """Whether the time range has grown since it was delivered."""
        if self.start_ns is None or self.end_ns is None:
            return False
        if self.told_start_ns is None or self.told_end_ns is None:
            return True
        return self.start_ns < self.told_start_ns or self.end_ns > self.told_end_ns


class Delivery(msgspec.Struct, frozen=True):
    """What the service took of a session, under the sequence of the call."""

    due: DuePublication
    sequence: int
    digest: str
    categories: tuple[str, ...]
    at_ms: int


class RefusedPublication(msgspec.Struct, frozen=True):
    """A session that the service will never take as it is, and why."""

    due: DuePublication
    reason: str


class PublicationStatus(msgspec.Struct, frozen=True):
    """What was told of one session, for people."""

    sequence: int
    told_version: int
    told_ms: int
    """0: nothing was delivered yet."""
    is_pending: bool
    refused: str
    """Why the service refused it; empty where it did not."""


class Backlog(msgspec.Struct, frozen=True):
    """What is not delivered yet, of all sessions."""

    waiting: int
    since_ms: int | None
    """When the service was last told of the session that waits longest; None where nothing waits."""
    refused: int
