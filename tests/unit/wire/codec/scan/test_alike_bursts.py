"""Bursts that are read many at once are read as each of them alone is, whatever stands in them."""

import struct
from collections.abc import Sequence

import lz4.block
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from rta_wire import errors
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import decode, encode, layout
from rta_wire.codec.scan import alike_bursts
from rta_wire.pb import data_pb2, stream_pb2
from rta_wire.stream.cursor import StreamEntry
from tests.unit.wire import strategies as g

LAYOUTS = layout.Plan([(2, layout.Layout(layout.SampleType.INT16)), (300, layout.Layout(layout.SampleType.FLOAT))])
WIDTHS = {1: 8, 2: 2, 300: 4, 70_000: 8}

shapes = st.lists(
    st.tuples(st.sampled_from([0, *WIDTHS]), st.integers(0, 3), st.sampled_from([0, 1, 1000, 10_000_000, -1])),
    min_size=1,
    max_size=5,
)
changes = st.tuples(st.integers(0, 400), st.integers(0, 255))
copies = st.lists(st.tuples(st.integers(0, 2), st.lists(changes, max_size=2), st.integers(0, 2**62)), max_size=12)


def raw_burst(shape: Sequence[tuple[int, int, int]], start_ns: int) -> bytes:
    """A burst of timestamped messages by protobuf: channel, number of samples and scale of each."""
    items = []
    for position, (channel, count, scale) in enumerate(shape):
        width = WIDTHS.get(channel, 8)
        message = data_pb2.TimestampedData(
            channel_id=channel,
            start_timestamp=start_ns // 2 + position,
            timestamp_deltas_scale=scale,
            timestamp_deltas=[0, *range(1, count)][:count],
            buffer=struct.pack("<Q", start_ns)[:width] * count,
        )
        items.append(stream_pb2.StreamData(timestamped_data=message))
    return stream_pb2.StreamDataBurst(data=items).SerializeToString()


def entry(index: int, raw: bytes) -> StreamEntry:
    return StreamEntry(f"{index}-0", 1, lz4.block.compress(raw, store_size=False))


def messages_of(entries: Sequence[StreamEntry]) -> list[tuple[object, ...]]:
    """Samples of all types in their order, and the rest that is kept of messages; or why they can't be read."""
    found = decode.messages(entries, LAYOUTS)
    fields = found.fields.timestamped
    lines = list(
        zip(
            *(fields.positions.tolist(), fields.channels.tolist(), fields.start_ns.tolist(), fields.scales.tolist()),
            *(fields.delta_sizes.tolist(), fields.buffer_sizes.tolist()),
            strict=True,
        )
    )
    samples = [
        (sample_type, columns.rows().tolist(), columns.times_ns.tolist(), columns.values.tobytes())
        for _, sample_type, columns in sorted(found.samples, key=lambda part: part[1])
    ]
    return [*lines, ("events", [event.SerializeToString() for event in found.events]), *samples]


def merged(parts: Sequence[list[tuple[object, ...]]]) -> list[tuple[object, ...]]:
    """What several calls gave, as one call would give it."""
    lines = [line for part in parts for line in part if isinstance(line[0], int)]
    events = [event for part in parts for line in part if line[0] == "events" for event in line[1]]  # type: ignore[attr-defined]
    samples: dict[str, list[object]] = {}
    for part in parts:
        for line in part:
            if isinstance(line[0], layout.SampleType):
                known = samples.setdefault(line[0], [line[0], [], [], b""])
                for place in (1, 2, 3):
                    known[place] += line[place]  # type: ignore[operator]
    return [*lines, ("events", events), *(tuple(samples[name]) for name in sorted(samples))]


@g.thorough
@given(shapes=st.lists(shapes, min_size=3, max_size=3), copies=copies)
@example([[(1, 1, 0)]] * 3, [(0, [], 1)] * 9)
@example([[(1, 1, 0)]] * 3, [(0, [(19, 7)], n) for n in range(2, 11)])  # the size of the samples
@example([[(1, 1, 0)], [(2, 1, 0), (300, 2, 1)], [(0, 0, 0)]], [(n % 3, [], n) for n in range(12)])
def test_the_same_as_one_by_one(
    shapes: list[list[tuple[int, int, int]]], copies: list[tuple[int, list[tuple[int, int]], int]]
) -> None:
    """Bursts of three shapes in any order, some with bytes that were changed, beside those of other messages."""
    raws = [bytearray(raw_burst(shapes[shape], start_ns)) for shape, _, start_ns in copies]
    for raw, (_, changed, _) in zip(raws, copies, strict=True):
        for place, value in changed:
            raw[place % len(raw)] = value
    other = stream_pb2.StreamDataBurst(data=[stream_pb2.StreamData(event=data_pb2.Event(event_definition_id=4))])
    raws.insert(len(raws) // 2, bytearray(other.SerializeToString()))
    entries = [entry(index, bytes(raw)) for index, raw in enumerate(raws)]
    try:
        expected = merged([messages_of([one]) for one in entries])
    except errors.BadBurst:
        try:
            found = messages_of(entries)
        except errors.BadBurst:
            return
        raise AssertionError(f"read, though one of them alone is refused: {found}") from None
    assert messages_of(entries) == expected


def test_ticks_of_a_recorder_are_alike() -> None:
    """Else the way that is fast would never be taken, and nobody would notice."""
    channels = np.arange(1, 51, dtype=np.uint32)
    raws = []
    for tick in range(100):
        times = np.full(50, 1_790_000_000_000_000_000 + tick * 10_000_000, np.int64)
        bursts = encode.encode_doubles(channels, times, np.sin(channels + tick))
        raws += [codec_burst.decompress(one.data) for one in bursts]
    raws.insert(7, codec_burst.decompress(encode.time_range(1, 2)))
    fields, others = alike_bursts.take(raws)
    assert list(others) == [7]
    assert (len(fields.bursts), len(raws)) == (5000, 101)
