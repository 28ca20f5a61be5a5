"""What the command and the Spark job say to each other: an order in a file, a document a line as answers."""

from typing import Any

import msgspec


class SessionOrder(msgspec.Struct, frozen=True):
    """One session, and about how much there is of it, from when to when."""

    identity: str
    size_bytes: int
    start_ms: int
    end_ms: int


class StreamOrder(msgspec.Struct, frozen=True):
    """Sessions of one stream, read together from an entry on."""

    stream: str
    after: str
    sessions: dict[int, SessionOrder]
    """By stream session id."""
    sample_type: str
    framing: str


class Pass(msgspec.Struct, frozen=True):
    """What is read and written in one go."""

    streams: tuple[StreamOrder, ...]

    @property
    def sessions(self) -> dict[int, SessionOrder]:
        return {number: one for stream in self.streams for number, one in stream.sessions.items()}


class Order(msgspec.Struct, frozen=True):
    """Everything that the job does."""

    redis_url: str
    key_prefix: str
    session_template: str
    master: str
    folder: str
    """Where files wait until they are verified."""
    level: int
    split_bytes: bool
    passes: tuple[Pass, ...]


class File(msgspec.Struct, frozen=True):
    """A file of one session, in the session's folder."""

    kind: str
    name: str
    rows: int


class Counted(msgspec.Struct, frozen=True):
    """Rows of one kind, and the sum of their bits."""

    rows: int = 0
    sum: int = 0


class Outcome(msgspec.Struct, frozen=True):
    """One session: what its stream held, and which files were made of it."""

    stream_session_id: int
    entries: int = 0
    size_bytes: int = 0
    first_id: str = ""
    last_id: str = ""
    begins_with_json: bool = False
    samples: Counted = Counted()
    events: Counted = Counted()
    files: tuple[File, ...] = ()
    problem: str = ""


class Started(msgspec.Struct, frozen=True, tag=True):
    """Spark is there."""

    version: str


class Progress(msgspec.Struct, frozen=True, tag=True):
    """A pass has come so far, as a share of its work."""

    number: int
    share: float


class Written(msgspec.Struct, frozen=True, tag=True):
    """The files of a pass are written; what they should hold is still being counted."""

    number: int
    files: dict[int, tuple[File, ...]]
    """By stream session id."""


class PassDone(msgspec.Struct, frozen=True, tag=True):
    """A pass is over."""

    number: int
    outcomes: tuple[Outcome, ...]


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The job can't go on."""

    code: str
    message: str
    retriable: bool = False
    facts: dict[str, Any] = {}


Answer = Started | Progress | Written | PassDone | Failed
