"""What `rta-supervisor archive` and its Spark job exchange: a specification in a file, and events as lines of JSON."""

from typing import Any

import msgspec


class SessionSpec(msgspec.Struct, frozen=True):
    """One session to archive: about how many bytes it has in its stream, and when they were added."""

    identity: str
    size_bytes: int
    start_ms: int
    end_ms: int


class StreamSpec(msgspec.Struct, frozen=True):
    """Sessions of one stream that are read together, beginning after an entry."""

    stream: str
    after: str
    sessions: dict[int, SessionSpec]
    """By stream session id."""
    sample_type: str
    framing: str


class PassSpec(msgspec.Struct, frozen=True):
    """Streams that one pass of the job reads and writes."""

    streams: tuple[StreamSpec, ...]

    @property
    def sessions(self) -> dict[int, SessionSpec]:
        """The sessions of all streams, by stream session id."""
        return {number: session for stream in self.streams for number, session in stream.sessions.items()}


class ArchiveSpec(msgspec.Struct, frozen=True):
    """All that the job has to do, and where."""

    redis_url: str
    key_prefix: str
    session_template: str
    master: str
    folder: str
    """Where the job writes files; they are moved to the archive when they are verified."""
    level: int
    split_bytes: bool
    passes: tuple[PassSpec, ...]


class ArchiveFile(msgspec.Struct, frozen=True):
    """A file of one session, by its name in the folder of the session."""

    kind: str
    name: str
    rows: int


class RowSum(msgspec.Struct, frozen=True):
    """Number of rows of one kind, and the sum of their hashes: the fields of a `content_digest.Digest`."""

    rows: int = 0
    sum: int = 0


class SessionResult(msgspec.Struct, frozen=True):
    """One session: what its stream held, and which files were written."""

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
    """Spark has started."""

    version: str


class JobProgress(msgspec.Struct, frozen=True, tag=True):
    """How much of a pass is done, from 0 to 1."""

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
    """The job ends with an error."""

    code: str
    message: str
    retriable: bool = False
    facts: dict[str, Any] = {}


JobEvent = JobStarted | JobProgress | PassWritten | PassDone | JobFailed
