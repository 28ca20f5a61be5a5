"""What a request to trim a stream asks for, how much of that may go, and why the rest stays. Pure."""

from typing import Final

import msgspec

from rta_supervisor.retention.archive_floor import UNLIMITED_ENTRIES
from rta_supervisor.settings import settings
from rta_wire import entry_ids
from rta_wire.pb import control_pb2

CALL_MAX_BYTES: Final = 2 * 1024 * 1024
"""Removed in one call, about: Redis frees that much memory in well under a millisecond."""

FOR_ARCHIVE: Final = "the archive does not have their sessions yet (archive.required): run rta-supervisor archive"
FOR_OPEN_SESSIONS: Final = "a session is open in the stream, and its entries stay for trim.min_retention_s"
FOR_BATCH: Final = "compacted entries are removed by whole batches, and the oldest batch has entries that stay"
FOR_TURN: Final = "another supervisor is changing the compacted part of the stream: ask again"


class Protection(msgspec.Struct, frozen=True):
    """Entries of a stream that no request removes: those from the lower of two ids on."""

    archive: str = entry_ids.MAX
    """What the archive needs begins here."""
    retention: str = entry_ids.MAX
    """What has not been in Redis for long enough begins here."""

    @property
    def below(self) -> str:
        """Entries below this id may go."""
        return min(self.archive, self.retention, key=entry_ids.parse)


def boundary(request: control_pb2.TrimStream) -> str:
    """The id below which all entries are to go, where the request says a time."""
    return entry_ids.format_id(request.before_ms) if request.HasField("before_ms") else entry_ids.MAX


def live_limits(request: control_pb2.TrimStream) -> settings.TrimLimits:
    """The limits of the live part. Its last entry stays, as with every trimming."""
    return _limits(max_entries=request.keep_entries or 1)


def cold_limits(request: control_pb2.TrimStream, at_ms: int) -> settings.TrimLimits:
    """The limits of live and cold together, for whole batches. `at_ms`: the time from which ages are counted."""
    if request.HasField("keep_entries"):
        return _limits(max_entries=request.keep_entries)
    # Half a millisecond less than the age: an entry of exactly that time stays, however the number is rounded.
    age_ms = max(at_ms - request.before_ms + 0.5, 0.5)
    return _limits(max_entries=UNLIMITED_ENTRIES, max_age_s=age_ms / 1000)


def _limits(*, max_entries: int, max_age_s: float = 0) -> settings.TrimLimits:
    return settings.TrimLimits(
        max_entries=max_entries,
        entry_s=0,
        entry_bytes=0,
        max_bytes=0,
        max_age_s=max_age_s,
        min_retention_s=0,
        idle_stream_s=0,
        exact=True,
    )


def entries_per_call(length: int, memory_bytes: int, most: int) -> int:
    """How many entries one call removes at most, by what an entry takes on average."""
    average = max(memory_bytes // max(length, 1), 1)
    return min(max(CALL_MAX_BYTES // average, 1), most)


def kept_because(
    request: control_pb2.TrimStream, protection: Protection, *, entries: int, cold_entries: int, first_id: str | None
) -> str:
    """Why entries stay that were to be removed; empty where none does.

    `entries`: of live and cold together, after the removal. `first_id`: the oldest of them.
    """
    is_kept = (
        entries > request.keep_entries
        if request.HasField("keep_entries")
        else entries > 1 and first_id is not None and entry_ids.is_after(boundary(request), first_id)
    )
    if not is_kept:
        return ""
    if cold_entries and protection.archive == entry_ids.MAX:
        return FOR_BATCH
    return FOR_ARCHIVE if protection.below == protection.archive else FOR_OPEN_SESSIONS
