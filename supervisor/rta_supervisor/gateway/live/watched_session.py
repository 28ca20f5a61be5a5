"""The record of a session in Redis, as viewers are shown it first."""

import msgspec

from rta_supervisor.gateway import session_hash
from rta_supervisor.gateway.archived.entry_store import SessionKey
from rta_supervisor.gateway.live import frames
from rta_supervisor.gateway.live.live_burst import is_closed
from rta_supervisor.transport.link import Link
from rta_wire import keys


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
    fields = session_hash.parse(await link.do("HMGET", names.session(identity), *session_hash.FIELDS))
    if fields is None:
        return None
    return WatchedSession(
        identity=identity,
        stream=fields.stream,
        stream_session_id=fields.stream_session_id,
        first_position=fields.first_position,
        document=fields.json.decode(errors="replace"),
        time_range_ns=fields.time_range_ns,
        updated_ms=fields.updated_ms,
    )
