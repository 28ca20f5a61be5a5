"""The record of a session in Redis, as viewers are shown it first."""

from typing import Final

import msgspec

from rta_supervisor.gateway.archived.entry_store import SessionKey
from rta_supervisor.gateway.live import frames
from rta_supervisor.gateway.live.live_burst import is_closed
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys

FIELDS: Final = (
    *(keys.STREAM_NAME, keys.STREAM_SESSION_ID, keys.STREAM_POSITION, keys.JSON),
    *(keys.T_START, keys.T_END, keys.LAST_UPDATED),
)

NUMBER_MAX_CHARS: Final = 20


class WatchedSession(msgspec.Struct, frozen=True):
    """What a session's hash says at one moment."""

    identity: str
    stream: str
    stream_session_id: int
    first_position: str
    """The last id of the stream before the session's first entry."""
    document: str
    """Session JSON."""
    time_range_ns: tuple[int, int] | None
    updated_ms: int

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.identity, self.stream, self.stream_session_id)

    @property
    def is_closed(self) -> bool:
        return is_closed(self.document)

    def first_frames(self) -> list[bytes]:
        """What a viewer is sent before everything else."""
        sent = [frames.session_json(self.document)]
        if self.time_range_ns is not None:
            sent.append(frames.time_range(*self.time_range_ns))
        return sent


async def read(link: Link, names: keys.Keys, identity: str) -> WatchedSession | None:
    """The record of a session; None where there is none, or it is not ready to be served."""
    values = await link.do("HMGET", names.session(identity), *FIELDS)
    stream, number, position, document, start, end, updated = values
    if stream is None or document is None or not _is_number(number):
        return None
    has_range = _is_number(start) and _is_number(end)
    return WatchedSession(
        identity=identity,
        stream=stream.decode(errors="replace"),
        stream_session_id=int(number),
        first_position=_position(position),
        document=document.decode(errors="replace"),
        time_range_ns=(int(start), int(end)) if has_range else None,
        updated_ms=int(updated) if _is_number(updated) else 0,
    )


def _is_number(value: bytes | None) -> bool:
    return value is not None and value.removeprefix(b"-").isdigit() and len(value) <= NUMBER_MAX_CHARS


def _position(value: bytes | None) -> str:
    """Where a session begins in its stream; at the start of the stream where somebody wrote something else."""
    ms, _, seq = (value or b"").partition(b"-")
    return f"{int(ms)}-{int(seq)}" if ms.isdigit() and seq.isdigit() else entry_ids.MIN
