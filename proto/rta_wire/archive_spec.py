"""What the command and the Spark job say to each other: an order in a file, a document a line as answers."""

from typing import Any

import msgspec


class SessionSpec(msgspec.Struct, frozen=True):
    """One session, and about how much there is of it, from when to when."""

    identity: str
    size_bytes: int
    start_ms: int
    end_ms: int


class StreamSpec(msgspec.Struct, frozen=True):
    """Sessions of one stream, read together from an entry on."""

    stream: str
    after: str
    sessions: dict[int, SessionSpec]
    """By stream session id."""
    sample_type: str
    framing: str


class PassSpec(msgspec.Struct, frozen=True):
    """What is read and written in one go."""

    streams: tuple[StreamSpec, ...]

    @property
    def sessions(self) -> dict[int, SessionSpec]:
        return {number: one for stream in self.streams for number, one in stream.sessions.items()}


class ArchiveSpec(msgspec.Struct, frozen=True):
    """Everything that the job does."""

    redis_url: str
    key_prefix: str
    session_template: str
    master: str
    folder: str
    """Where files wait until they are verified."""
    level: int
    split_bytes: bool
    passes: tuple[PassSpec, ...]


class ArchiveFile(msgspec.Struct, frozen=True):
    """A file of one session, in the session's folder."""

    kind: str
    name: str
    rows: int


class RowSum(msgspec.Struct, frozen=True):
    """Rows of one kind, and the sum of their bits."""

    rows: int = 0
    sum: int = 0


class SessionResult(msgspec.Struct, frozen=True):
    """One session: what its stream held, and which files were made of it."""

    stream_session_id: int
    entries: int = 0
    size_bytes: int = 0
    first_id: str = ""
    last_id: str = ""
    begins_with_json: bool = False
    samples: RowSum = RowSum()
    events: RowSum = RowSum()
    files: tuple[ArchiveFile, ...] = ()
    problem: str = ""


class JobStarted(msgspec.Struct, frozen=True, tag=True):
    """Spark is there."""

    version: str


class JobProgress(msgspec.Struct, frozen=True, tag=True):
    """A pass has come so far, as a share of its work."""

    number: int
    share: float


class PassWritten(msgspec.Struct, frozen=True, tag=True):
    """The files of a pass are written; what they should hold is still being counted."""

    number: int
    files: dict[int, tuple[ArchiveFile, ...]]
    """By stream session id."""


class PassDone(msgspec.Struct, frozen=True, tag=True):
    """A pass is over."""

    number: int
    outcomes: tuple[SessionResult, ...]


class JobFailed(msgspec.Struct, frozen=True, tag=True):
    """The job can't go on."""

    code: str
    message: str
    retriable: bool = False
    facts: dict[str, Any] = {}


JobEvent = JobStarted | JobProgress | PassWritten | PassDone | JobFailed
