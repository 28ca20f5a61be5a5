"""What a stream holds of sessions, counted again from its entries, to compare with the files that were written."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyarrow as pa

from rta_wire import content_digest, entry_ids, errors
from rta_wire.codec import decode
from rta_wire.stream.cursor import StreamEntry
from rta_writers.archive import rows as archive_rows


class SessionRecount(msgspec.Struct, frozen=True):
    """What a stream, or a range of it, holds of one session."""

    entries: int = 0
    size_bytes: int = 0
    first_id: str = ""
    last_id: str = ""
    begins_with_json: bool = False
    samples: content_digest.Digest = content_digest.Digest()
    events: content_digest.Digest = content_digest.Digest()
    problem: str = ""

    def sum_of(self, other: "SessionRecount") -> "SessionRecount":
        """The recount of two ranges together."""
        if not self.entries or not other.entries:
            return self if self.entries else other
        first = min(self, other, key=lambda recount: entry_ids.parse(recount.first_id))
        last = max(self, other, key=lambda recount: entry_ids.parse(recount.last_id))
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
    batches: Iterable[pa.RecordBatch], sessions: Mapping[int, archive_rows.SessionLayout]
) -> dict[int, SessionRecount]:
    """What entries hold, by stream session id. The entries of a batch are of one session."""
    recounts: dict[int, SessionRecount] = {}
    for batch in batches:
        entries = list(archive_rows.stream_entries([batch]))
        if entries and (number := entries[0].stream_session_id) in sessions:
            earlier = recounts.get(number, SessionRecount())
            recounts[number] = earlier.sum_of(_recount(entries, sessions[number]))
    return recounts


def _recount(entries: Sequence[StreamEntry], session: archive_rows.SessionLayout) -> SessionRecount:
    size_bytes = sum(len(entry.data) for entry in entries)
    recount = SessionRecount(len(entries), size_bytes, entries[0].id, entries[-1].id)
    try:
        opening = decode.burst(entries[0].data, session.framing)
        decoded = session.decode(entries)
    except errors.RtaError as error:
        return msgspec.structs.replace(recount, problem=str(error))
    samples = content_digest.Digest()
    for sample_type, columns in decoded.samples.items():
        samples = samples.sum_of(archive_rows.LongSamples.from_columns(sample_type, columns).digest())
    events = (
        (event.event_definition_id, event.timestamp, event.app_name, event.status_text, event.raw_data)
        for event in decoded.events
    )
    return msgspec.structs.replace(
        recount,
        begins_with_json=bool(opening.data) and bool(opening.data[0].session_json),
        samples=samples,
        events=content_digest.of_events(events),
    )
