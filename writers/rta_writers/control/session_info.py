"""A session as the supervisor describes it to who looks at it."""

from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec

from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import Json, State

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SessionInfo(msgspec.Struct, frozen=True):
    """A session at the time of the question. It does not change."""

    identity: str
    stream: str
    stream_session_id: int
    state: State
    principal: str
    totals: Totals
    """What was written to it, as far as it is reported, and the range of its sample times."""

    opened: datetime
    updated: datetime
    """When its JSON or its state changed last, or the catalogue learnt of it."""

    json: Json | None
    """Its Session JSON; None in a list where it has more than 32 KiB. `SessionClient.get` gives it whole."""

    is_in_redis: bool
    """False: Redis has forgotten it, and this is what the catalogue has."""

    archive: str | None
    """The folder of its files, None where it is not archived."""

    version: int

    @classmethod
    def from_message(cls, found: control_pb2.FoundSession, document: bytes) -> Self:
        """`document`: the Session JSON, empty where it is left out."""
        return cls(
            identity=found.identity,
            stream=found.stream,
            stream_session_id=found.stream_session_id,
            state=State(found.state),
            principal=found.principal,
            totals=Totals.from_message(found.totals),
            opened=_from_ms(found.opened_ms),
            updated=_from_ms(found.updated_ms),
            json=_parse(document),
            is_in_redis=found.is_in_redis,
            archive=found.archive_location or None,
            version=found.version,
        )

    @property
    def time_range_ns(self) -> tuple[int, int] | None:
        """The first and the last sample time, None without samples."""
        return self.totals.time_range_ns

    def __repr__(self) -> str:
        place = "in Redis" if self.is_in_redis else "in the catalogue"
        archived = f", archived at {self.archive!r}" if self.archive else ""
        return (
            f"SessionInfo({self.identity!r}, state={self.state.value!r}, stream={self.stream!r}, "
            f"{self.totals.describe()}, {place}{archived})"
        )


def _from_ms(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def _parse(document: bytes) -> Any:
    """Session JSON; None where there is none, or what the catalogue has can't be read."""
    try:
        return msgspec.json.decode(document) if document else None
    except (msgspec.DecodeError, UnicodeError):
        return None
