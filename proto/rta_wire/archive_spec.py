"""What the archive command and its Spark job send each other: a spec in a JSON file, and events as lines of JSON."""

from typing import Any

import msgspec


class SessionSpec(msgspec.Struct, frozen=True):
    """A session to archive: about how much is stored of what is archived now, and where that begins."""

    identity: str
    size_bytes: int
    after: str
    """Entries after this id are archived: earlier parts have the others."""
    part: int = 1
    """The number of the part that is written."""


class StreamSpec(msgspec.Struct, frozen=True):
    """Sessions of one stream that are read together."""

    stream: str
    after: str
    """The entry id after which the stream is read."""
    until: str
    """The last entry that is archived: what comes later belongs to later parts."""
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
    """`samples`, `events` or `messages`."""
    name: str
    rows: int
    first_id: str = ""
    """The first entry that the file has rows of."""
    last_id: str = ""
    start_ns: int | None = None
    """The lowest time of a row."""
    end_ns: int | None = None


class RowSum(msgspec.Struct, frozen=True):
    """How many rows or entries of one kind, and the digest of their content."""

    rows: int = 0
    sum: int = 0


class SessionResult(msgspec.Struct, frozen=True):
    """What the stream held of one session, and which files were made from it."""

    stream_session_id: int
    size_bytes: int = 0
    first_id: str = ""
    last_id: str = ""
    begins_with_json: bool = False
    """Whether the first entry is Session JSON: else entries before it were removed."""
    read: RowSum = RowSum()
    """Entries that were decoded, as they are stored."""
    counted: RowSum = RowSum()
    """The same, read from the stream once more after the files were written."""
    trimmed: RowSum = RowSum()
    """Entries that were decoded and then trimmed, before the stream was read once more."""
    samples: RowSum = RowSum()
    """Of decoded rows, like the next two."""
    events: RowSum = RowSum()
    messages: RowSum = RowSum()
    files: tuple[ArchiveFile, ...] = ()
    problem: str = ""
    """Why the session can't be archived; empty where it can."""

    @property
    def entries(self) -> int:
        """How many entries the files were made from."""
        return self.read.rows


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
