"""Makes chunks of events. They are sorted by time, and those of one time by their content. Pure."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from rta_wire import limits
from rta_wire.chunks import sample_chunks, windows
from rta_wire.chunks.transfer import Chunk
from rta_wire.codec.protobuf import proto_fields
from rta_wire.pb import data_pb2


def in_time_order(events: Sequence[data_pb2.Event]) -> list[tuple[int, bytes]]:
    """Times of events and the events as bytes."""
    return sorted((event.timestamp, event.SerializeToString(deterministic=True)) for event in events)


def events(ordered: Sequence[tuple[int, bytes]]) -> Iterator[Chunk]:
    """Chunks of the sorted events of whole windows."""
    times = np.array([time_ns for time_ns, _ in ordered], np.int64)
    cuts = windows.cut(times)
    for first, last in itertools.pairwise(cuts):
        for start, stop in _by_size(ordered, first, last):
            pieces = [
                piece
                for _, data in ordered[start:stop]
                for piece in (proto_fields.varint_field(sample_chunks.LIST_ITEM, len(data)), data)
            ]
            yield Chunk((), ordered[start][0], ordered[stop - 1][0], b"".join(pieces))


def _by_size(ordered: Sequence[tuple[int, bytes]], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Ranges of events of about the size of a list, cut between different times where there are any."""
    start, size = first, 0
    for at in range(first, last):
        is_later = at > start and ordered[at][0] != ordered[at - 1][0]
        if at > start and (
            (size >= limits.CHUNK_LIST_BYTES and is_later) or size + len(ordered[at][1]) > limits.CHUNK_LIST_MAX_BYTES
        ):
            yield start, at
            start, size = at, 0
        size += len(ordered[at][1])
    if last > start:
        yield start, last
