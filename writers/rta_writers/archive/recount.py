"""What a stream holds of sessions, counted anew from its entries."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyarrow as pa

from rta_wire import content_digest, entry_ids, errors
from rta_wire.codec import decode
from rta_wire.stream import cursor
from rta_writers.archive import parquet


class SessionRecount(msgspec.Struct, frozen=True):
    """What a stream, or a part of it, holds of one session."""

    entries: int = 0
    size_bytes: int = 0
    first_id: str = ""
    last_id: str = ""
    begins_with_json: bool = False
    samples: content_digest.Digest = content_digest.Digest()
    events: content_digest.Digest = content_digest.Digest()
    problem: str = ""

    def sum_of(self, other: "SessionRecount") -> "SessionRecount":
        """Two parts of a stream together."""
        if not self.entries or not other.entries:
            return self if self.entries else other
        first = min(self, other, key=lambda one: entry_ids.parse(one.first_id))
        last = max(self, other, key=lambda one: entry_ids.parse(one.last_id))
        return SessionRecount(
            self.entries + other.entries,
            self.size_bytes + other.size_bytes,
            first.first_id,
            last.last_id,
            first.begins_with_json,
            self.samples.sum_of(other.samples),
            self.events.sum_of(other.events),
            self.problem or other.problem,
        )


def recount_sessions(
    batches: Iterable[pa.RecordBatch], wanted: Mapping[int, parquet.SessionLayout]
) -> dict[int, SessionRecount]:
    """What entries hold, by session. Those of a batch are of one session."""
    found: dict[int, SessionRecount] = {}
    for batch in batches:
        some = list(parquet.stream_entries([batch]))
        if some and (number := some[0].stream_session_id) in wanted:
            found[number] = found.get(number, SessionRecount()).sum_of(_counted(some, wanted[number]))
    return found


def _counted(some: Sequence[cursor.StreamEntry], wanted: parquet.SessionLayout) -> SessionRecount:
    seen = SessionRecount(len(some), sum(len(one.data) for one in some), some[0].id, some[-1].id)
    try:
        opening = decode.burst(some[0].data, wanted.framing)
        decoded = parquet.decoded_bursts(some, wanted)
    except errors.RtaError as error:
        return msgspec.structs.replace(seen, problem=str(error))
    samples = content_digest.Digest()
    for kind, columns_ in decoded.samples.items():
        samples = samples.sum_of(parquet.Samples.of(kind, columns_).digest())
    told = ((e.event_definition_id, e.timestamp, e.app_name, e.status_text, e.raw_data) for e in decoded.events)
    return msgspec.structs.replace(
        seen,
        begins_with_json=bool(opening.data) and bool(opening.data[0].session_json),
        samples=samples,
        events=content_digest.of_events(told),
    )
