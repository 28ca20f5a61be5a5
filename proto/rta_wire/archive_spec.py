"""What the archive command and its Spark job send each other: a spec in a JSON file, and events as lines of JSON."""

from typing import Any

import msgspec


class SessionSpec(msgspec.Struct, frozen=True):
    """A session to archive: about how much is stored of it, and between which times."""

    identity: str
    size_bytes: int
    start_ms: int
    end_ms: int


class StreamSpec(msgspec.Struct, frozen=True):
    """Sessions of one stream that are read together."""

    stream: str
    after: str
    """The entry id after which the stream is read."""
    sessions: dict[int, SessionSpec]
    """By stream session id."""
    sample_type: str
    """The types of values, as the option `sampleType` of the Spark source says them."""
    framing: str


class PassSpec(msgspec.Struct, frozen=True):
    """What is read and written in one pass."""

    streams: tuple[StreamSpec, ...]

    @property
    def sessions(self) -> dict[int, SessionSpec]:
        """The sessions of all streams, by stream session id."""
        return {number: session for stream in self.streams for number, session in stream.sessions.items()}


class ArchiveSpec(msgspec.Struct, frozen=True):
    """Everything that a job does."""

    redis_url: str
    key_prefix: str
    session_template: str
    master: str
    """The master of Spark."""
    folder: str
    """The staging folder, in which files stay until they are verified."""
    level: int
    """Of the compression."""
    split_bytes: bool
    """Whether values are written as BYTE_STREAM_SPLIT."""
    passes: tuple[PassSpec, ...]


class ArchiveFile(msgspec.Struct, frozen=True):
    """A file of one session, by its name in the folder of the session."""

    kind: str
    """`samples` or `events`."""
    name: str
    rows: int


class RowSum(msgspec.Struct, frozen=True):
    """How many rows of one kind, and the digest of their content."""

    rows: int = 0
    sum: int = 0


class SessionResult(msgspec.Struct, frozen=True):
    """What the stream held of one session, and which files were made from it."""

    stream_session_id: int
    entries: int = 0
    size_bytes: int = 0
    first_id: str = ""
    last_id: str = ""
    begins_with_json: bool = False
    """Whether the first entry is Session JSON: else entries before it were removed."""
    samples: RowSum = RowSum()
    events: RowSum = RowSum()
    files: tuple[ArchiveFile, ...] = ()
    problem: str = ""
    """Why the session can't be archived; empty where it can."""


class JobStarted(msgspec.Struct, frozen=True, tag=True):
    """Spark is running."""

    version: str


class JobProgress(msgspec.Struct, frozen=True, tag=True):
    """Which share of a pass is done, 0 to 1."""

    number: int
    share: float


class PassWritten(msgspec.Struct, frozen=True, tag=True):
    """The files of a pass are written; the stream is counted again for what they should hold."""

    number: int
    files: dict[int, tuple[ArchiveFile, ...]]
    """By stream session id."""


class PassDone(msgspec.Struct, frozen=True, tag=True):
    """A pass has ended, with a result for each session."""

    number: int
    outcomes: tuple[SessionResult, ...]


class JobFailed(msgspec.Struct, frozen=True, tag=True):
    """The job can't go on, because of an error of this code."""

    code: str
    message: str
    retriable: bool = False
    facts: dict[str, Any] = {}


JobEvent = JobStarted | JobProgress | PassWritten | PassDone | JobFailed
"""One line of what a job prints."""
