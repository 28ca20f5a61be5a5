"""Decoders on hostile bytes: they answer like protobuf or refuse by name, in bounded time and memory."""

import resource
import time

import lz4.block
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from rta_wire import errors, limits
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import decode, encode, event_messages, layout
from rta_wire.pb import stream_pb2
from tests.unit.wire import strategies as g

TIME_LIMIT_S = 5.0
MEMORY_LIMIT_BYTES = 128 * limits.MIB
"""What the process may grow by: half a million messages in 1 MiB, as objects, are the worst of it."""

LAYOUTS = layout.Plan(
    [
        (1, layout.Layout(layout.SampleType.INT16)),
        (2, layout.Layout(layout.SampleType.UINT8, layout.Kind.PERIODIC)),
        (3, layout.Layout(layout.SampleType.FLOAT, layout.Kind.ROW)),
        (4, layout.Layout(layout.SampleType.DOUBLE, layout.Kind.ROW)),
    ]
)


def seeds() -> list[bytes]:
    """Good bursts of every kind, not compressed: where mutations start."""
    ids = np.tile(np.arange(6, dtype=np.uint32), 12)
    times = np.repeat(np.arange(12), 6) * 1_000_003 + ids
    encoder = encode.Encoder(LAYOUTS)
    datas = [burst.data for burst in encoder.rows(ids, times, (ids + 1) * 1.0)]
    datas += [burst.data for burst in encoder.events([event_messages.event(1, 2, app_name="a", raw_data=[1.5, 2.5])])]
    datas += [encode.session_json(b'{"identity": "x"}'), encode.time_range(1, 2)]
    return [codec_burst.decompress(data) for data in datas]


SEEDS = seeds()


def survive(data: bytes, framing: codec_burst.Framing = codec_burst.Framing.RAW) -> bool:
    """Whether columns come out; nothing but an error that names the entry may stop them."""
    try:
        decode.columns([data], LAYOUTS, framing=framing)
    except errors.BadBurst as error:
        return error.facts.get("entry") != "0"
    return True


@g.thorough
@given(data=st.binary(max_size=4096))
@example(b"")
@example(bytes(4096))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    """No bytes raise anything but the named error, whatever the framing."""
    for framing in codec_burst.Framing:
        survive(data, framing)
    assert not survive(b"\xff" + data + b"\xff\xff")


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A good burst with bytes changed, cut, doubled or put in."""
    raw = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 8))):
        spot = draw(st.integers(0, max(0, len(raw) - 1)))
        how = draw(st.sampled_from(["set", "cut", "insert", "delete", "double"]))
        if how == "set" and raw:
            raw[spot] = draw(st.integers(0, 255))
        elif how == "cut":
            del raw[spot:]
        elif how == "insert":
            raw[spot:spot] = draw(st.binary(max_size=12))
        elif how == "delete":
            del raw[spot : spot + draw(st.integers(1, 12))]
        else:
            raw[spot:spot] = raw[max(0, spot - 20) : spot]
    return bytes(raw)


@g.thorough
@given(raw=mutated())
def test_mutated_messages_mean_what_protobuf_says(raw: bytes) -> None:
    """A burst that we read holds what plain protobuf parsing finds in it; one that protobuf refuses, we refuse."""
    data = lz4.block.compress(raw, store_size=False)
    try:
        message = stream_pb2.StreamDataBurst.FromString(raw)
    except Exception:  # noqa: BLE001 - whatever protobuf raises, ours must be the named error
        assert not survive(data)
        return
    if not survive(data):
        return
    message.DiscardUnknownFields()
    rewritten = lz4.block.compress(message.SerializeToString(), store_size=False)
    ours, theirs = decode.columns([data], LAYOUTS), decode.columns([rewritten], LAYOUTS)
    assert described(ours) == described(theirs) == described_by_hand(message)


def described(decoded: decode.DecodedBursts) -> object:
    """Everything in columns, in a form that compares bit by bit."""
    samples: dict[int, list[tuple[int, bytes]]] = {}
    for part in decoded.samples.values():
        for channel, (times, values) in part.by_channel().items():
            raws = [values[k : k + 1].tobytes() for k in range(len(values))]
            samples.setdefault(channel, []).extend(zip(times.tolist(), raws, strict=True))
    return (
        {channel: sorted(pairs) for channel, pairs in samples.items()},
        [event.SerializeToString() for event in decoded.events],
        decoded.session_json,
        decoded.time_ranges_ns,
    )


def described_by_hand(message: stream_pb2.StreamDataBurst) -> object:
    """The same from the message, sample by sample."""
    samples: g.SamplesByChannel = {}
    kinds = ("timestamped_data", "periodic_data", "row_data")
    for item in message.data:
        kind = item.WhichOneof("data")
        if kind in kinds and getattr(item, kind).buffer:
            g.add(samples, item, LAYOUTS)
    ranges = [item.time_range for item in message.data if item.HasField("time_range")]
    return (
        {channel: sorted(pairs) for channel, pairs in samples.items()},
        [item.event.SerializeToString() for item in message.data if item.HasField("event")],
        [item.session_json for item in message.data if item.HasField("session_json")],
        [(time_range.start_time, time_range.end_time) for time_range in ranges],
    )


@g.thorough
@given(data=st.data())
def test_mutated_compression_is_refused_or_read(data: st.DataObject) -> None:
    """Faults below protobuf, in the LZ4 block itself, are named errors too."""
    block = bytearray(lz4.block.compress(data.draw(st.sampled_from(SEEDS)), store_size=False))
    for _ in range(data.draw(st.integers(1, 6))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(block)))
    for framing in codec_burst.Framing:
        survive(bytes(block[:cut]), framing)
    assert not survive(bytes(block) + b"\xff")


def worst_cases() -> list[bytes]:
    """1 MiB of whatever costs the most."""
    full = limits.BURST_MAX_BYTES
    one_byte = stream_pb2.StreamDataBurst()
    item = one_byte.data.add().periodic_data
    item.channel_id, item.samples, item.buffer = 2, full - 64, bytes(full - 64)
    deltas = stream_pb2.StreamDataBurst()
    stamped = deltas.data.add().timestamped_data
    stamped.channel_id, stamped.timestamp_deltas_scale = 1, 2**40
    stamped.timestamp_deltas.extend([0, *[2**21, -(2**21)] * 29_000])
    stamped.buffer = bytes(2 * len(stamped.timestamp_deltas))
    rows = stream_pb2.StreamDataBurst()
    row = rows.data.add().row_data
    row.channel_ids.extend([3] * (full // 6))
    row.buffer = bytes(4 * len(row.channel_ids))
    return [
        b"\x0a\x00" * (full // 2),
        b"\x0a\x00" * limits.BURST_MAX_MESSAGES,
        b"\x0a\x02\x22\x00" * limits.BURST_MAX_MESSAGES,
        b"\x0a\x04\x22\x02\x78\x01" * limits.BURST_MAX_MESSAGES,
        b"\x0a\x02\x3a\x00" * limits.BURST_MAX_MESSAGES,
        one_byte.SerializeToString(),
        deltas.SerializeToString(),
        rows.SerializeToString(),
        bytes(full),
        b"\xff" * full,
    ]


def test_the_worst_megabyte_is_bounded_in_time_and_memory() -> None:
    """Whatever 1 MiB holds, it is done in seconds and in a fixed amount of memory."""
    before = resident_bytes()
    for raw in worst_cases():
        assert len(raw) <= limits.BURST_MAX_BYTES
        data = lz4.block.compress(raw, store_size=False)
        started_s = time.perf_counter()
        survive(data)
        assert time.perf_counter() - started_s < TIME_LIMIT_S
    assert resident_bytes() - before < MEMORY_LIMIT_BYTES


def resident_bytes() -> int:
    """The most memory that the process ever had; what protobuf takes counts too."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * limits.KIB
