"""Encodes events as messages. They are made one by one or from the rows of Arrow record batches."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from rta_wire import errors
from rta_wire.codec import burst, columns
from rta_wire.pb import data_pb2, stream_pb2


def event(
    definition_id: int,
    time_ns: int,
    *,
    app_name: str = "",
    status_text: str = "",
    raw_data: Sequence[float] = (),
) -> data_pb2.Event:
    """One event. Values that don't fit raise BadSamples."""
    try:
        return data_pb2.Event(
            event_definition_id=definition_id,
            app_name=app_name,
            timestamp=time_ns,
            status_text=status_text,
            raw_data=raw_data,
        )
    except (TypeError, ValueError) as error:
        raise errors.BadSamples(reason=f"event {definition_id!r} at {time_ns!r} can't be encoded: {error}") from error


def from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[data_pb2.Event]:
    """Events from columns `event_definition_id` and `time`, and if they exist `app_name`, `status_text` and `raw_data`.

    Texts and lists that are null are empty; a definition or a time that is null is an error, as is a null in a list.
    """
    first_row = 0
    for batch in batches:
        times = columns.times_ns(columns.get_column(batch, "time"), first_row).tolist()
        ids = columns.get_column(batch, "event_definition_id").to_pylist()
        optional = [
            batch.column(name).to_pylist() if name in batch.schema.names else [None] * len(ids)
            for name in ("app_name", "status_text", "raw_data")
        ]
        for row, (definition, time_ns, app_name, text, raw) in enumerate(
            zip(ids, times, *optional, strict=True), first_row
        ):
            if definition is None:
                raise errors.BadSamples(reason=f"row {row}: the event definition is null", row=row)
            try:
                yield event(definition, time_ns, app_name=app_name or "", status_text=text or "", raw_data=raw or ())
            except errors.BadSamples as error:
                raise errors.BadSamples(reason=f"row {row}: {error.facts['reason']}", row=row) from error
        first_row += len(ids)


def block(events: Sequence[data_pb2.Event]) -> burst.MessageBlock:
    """Messages with one event each."""
    messages = [
        stream_pb2.StreamDataBurst(data=[stream_pb2.StreamData(event=event)]).SerializeToString() for event in events
    ]
    pieces: list[bytes | memoryview] = [b""] * (burst.PIECES * len(messages))
    pieces[0 :: burst.PIECES] = messages
    sizes = np.array([len(message) for message in messages], np.int64)
    times = np.array([event.timestamp for event in events], np.int64)
    return burst.MessageBlock(pieces, sizes, np.zeros(len(events), np.int64), times, times, len(events))
