"""Values of the tables of publications: what is due to be told of a session, and what came of it. Pure."""

from collections.abc import Iterable

import msgspec

from rta_wire.session import State

NOTHING_DELIVERED: int = -1
"""The delivered version of a session of which the service knows nothing, or nothing that can be relied on."""


def categories_line(names: Iterable[str]) -> str:
    """Categories of details as they are stored: a line of JSON for each call that may have told some."""
    return f"\n{msgspec.json.encode(sorted(names)).decode()}"


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
    told_categories: str
    """The lines of categories of details that the service may have of the session."""
    told_ms: int
    noted_ms: int

    @property
    def categories(self) -> frozenset[str]:
        """Every category of details that the service may have of the session."""
        lines = msgspec.json.Decoder(list[str]).decode_lines(self.told_categories)
        return frozenset(name for names in lines for name in names)

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
    told_categories: str
    """The lines of categories before the call, with that of the call."""
    categories: str
    """The lines that take their place, unless another call has added some meanwhile."""
    at_ms: int


class RefusedPublication(msgspec.Struct, frozen=True):
    """A session that the service will never take as it is, and why."""

    due: DuePublication
    reason: str
    message: bytes
    """The call that it refused."""


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
