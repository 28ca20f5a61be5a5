"""One session as viewers are shown it, from Redis or from the catalogue. Pure."""

import functools
from collections.abc import Callable
from typing import Any, Final

import msgspec

from rta_supervisor.catalogue.model import CatalogueRow
from rta_wire import entry_ids, session
from rta_wire.query import property_paths, typed_values
from rta_wire.session import Json, State

STREAM: Final = "stream"
"""Not of the Session JSON: the name of the stream of a session, to be queried and sorted by."""

SAMPLES: Final = "rtaSamples"
"""Not of the published protocol: how many samples were written to a session, as its catalogue has it."""

SAMPLES_TIME: Final = "rtaSamplesTime"
"""When that was so: two of these with their numbers give the rate of an open session."""


UNREADABLE_ERRORS: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What reading Session JSON raises that is none: anybody may have written it, and it may be nested without end."""


class ListedSession(msgspec.Struct, frozen=True):
    """A session: its Session JSON as it is stored, and what is known better than the JSON says it."""

    identity: str
    stream: str
    stream_session_id: int
    json: bytes
    state: str = ""
    """Empty: as the JSON says."""
    time_range_ns: tuple[int, int] | None = None
    """None: as the JSON says."""
    position: str = entry_ids.MIN
    is_in_redis: bool = False
    samples: int | None = None
    """None: not known."""
    samples_ms: int = 0
    """When there were so many."""

    @classmethod
    def from_catalogue(cls, row: CatalogueRow) -> "ListedSession":
        totals = row.totals
        is_known = totals.start_ns is not None and totals.end_ns is not None
        return cls(
            row.identity,
            row.stream,
            row.stream_session_id,
            row.json.encode(),
            row.state.value,
            (totals.start_ns, totals.end_ns) if is_known else None,  # type: ignore[arg-type] # both are known
            row.position,
            samples=totals.samples,
            samples_ms=row.updated_ms,
        )

    def counted_as(self, stored: "ListedSession | None") -> "ListedSession":
        """The same session with the number of samples that the catalogue has of it."""
        if stored is None or stored.stream_session_id != self.stream_session_id:
            return self
        return msgspec.structs.replace(self, samples=stored.samples, samples_ms=stored.samples_ms)

    def document(self) -> Json:
        """The Session JSON with state and time range as they are now. Where it can't be read, what is known."""
        try:
            document = msgspec.json.decode(self.json)
        except UNREADABLE_ERRORS:
            document = None
        if not isinstance(document, dict):
            document = {"identity": self.identity, "identifier": self.identity}
        if self.state:
            document["state"] = self.state
        return document | self._times() | self._counts()

    def value_at(self, path: str) -> Any:
        """The value of one property, without the rest of the document where that is possible."""
        root = path.partition(".")[0]
        if path == "identity":
            return self.identity
        if path == "state" and self.state:
            return self.state
        if root in _TIMES and self.time_range_ns is not None:
            return property_paths.value_at(self._times(), path)
        if path == STREAM:
            return self.stream
        if path in _COUNTS:
            return self._counts().get(path)
        try:
            return property_paths.value_at(_decode_only(root)(self.json), path)
        except UNREADABLE_ERRORS:
            return None

    def core(self) -> "SessionCore":
        """What the table keeps of every session."""
        try:
            return _decode_core(self.json)
        except UNREADABLE_ERRORS:
            return SessionCore()

    @property
    def is_closed(self) -> bool:
        return (self.state or str(self.document().get("state"))) in session.FINAL_STATES

    def _times(self) -> Json:
        if self.time_range_ns is None:
            return {}
        start_ns, end_ns = self.time_range_ns
        return {
            "timeRange": {"startTime": start_ns, "endTime": end_ns},
            "startTimestamp": session.iso_from_ns(start_ns),
            "endTimestamp": session.iso_from_ns(end_ns),
        }

    def _counts(self) -> Json:
        if self.samples is None:
            return {}
        return {SAMPLES: self.samples, SAMPLES_TIME: session.iso_from_ns(self.samples_ms * _NS_PER_MS)}


_NS_PER_MS: Final = 10**6
_COUNTS: Final = frozenset({SAMPLES, SAMPLES_TIME})
_TIMES: Final = frozenset({"timeRange", "startTimestamp", "endTimestamp"})


class SessionCore(msgspec.Struct, frozen=True):
    """The properties by which sessions are listed."""

    timestamp: Any = None
    children: Any = None
    alternates: Any = None

    @property
    def timestamp_ns(self) -> int:
        """0 where there is no timestamp, so that such sessions come last."""
        instant = typed_values.instant_ns(self.timestamp) if isinstance(self.timestamp, str) else None
        return instant or 0

    def references(self) -> set[str]:
        """Identities of children and alternates, which are named by themselves or as objects with an identity."""
        members = [
            member for members in (self.children, self.alternates) if isinstance(members, list) for member in members
        ]
        named = (member.get("identity") if isinstance(member, dict) else member for member in members)
        return {identity for identity in named if isinstance(identity, str)}


_decode_core: Final = msgspec.json.Decoder(SessionCore).decode


@functools.lru_cache(maxsize=256)
def _decode_only(root: str) -> Callable[[bytes], Json]:
    """A decoder that skips all properties but one: several times as fast as a decoder of whole documents."""
    if not root.isidentifier() or root.startswith("_"):
        return _decode_all
    decode = msgspec.json.Decoder(
        msgspec.defstruct("OneProperty", [("value", Any, None)], rename={"value": root})
    ).decode
    return lambda data: {root: decode(data).value}  # type: ignore[attr-defined] # a field of the struct


def _decode_all(data: bytes) -> Json:
    document = msgspec.json.decode(data)
    return document if isinstance(document, dict) else {}


STATES: Final = tuple(state.value for state in State)
