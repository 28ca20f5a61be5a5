"""Cutting messages out of bursts, against what protobuf itself makes of them."""

import contextlib

import lz4.block
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.gateway.live import burst_index
from rta_wire import errors
from rta_wire.pb import data_pb2, stream_pb2

CHANNELS = st.one_of(st.integers(0, 300), st.integers(0, 2**32 - 1))
TIMESTAMPED = st.builds(
    lambda channel, buffer: stream_pb2.StreamData(
        timestamped_data=data_pb2.TimestampedData(channel_id=channel, start_timestamp=7, buffer=buffer)
    ),
    CHANNELS,
    st.binary(max_size=300),
)
PERIODIC = st.builds(
    lambda channel: stream_pb2.StreamData(periodic_data=data_pb2.PeriodicData(channel_id=channel, samples=3)), CHANNELS
)
ROWS = st.builds(
    lambda channels: stream_pb2.StreamData(row_data=data_pb2.RowData(channel_ids=channels, timestamp=5)),
    st.lists(CHANNELS, max_size=5),
)
OTHERS = st.sampled_from(
    [
        stream_pb2.StreamData(session_json="{}"),
        stream_pb2.StreamData(time_range=stream_pb2.StreamTimeRange(start_time=1, end_time=2)),
        stream_pb2.StreamData(event=data_pb2.Event(status_text="lap")),
        stream_pb2.StreamData(),
    ]
)
MESSAGES = st.lists(st.one_of(TIMESTAMPED, PERIODIC, ROWS, OTHERS), max_size=30)


def is_wanted(message: stream_pb2.StreamData, *, events: bool, everything: bool, channels: set[int]) -> bool:
    """The rule of the protocol, by the decoded message."""
    kind = message.WhichOneof("data")
    if kind == "timestamped_data":
        return everything or message.timestamped_data.channel_id in channels
    if kind == "periodic_data":
        return everything or message.periodic_data.channel_id in channels
    if kind == "row_data":
        return everything or not channels.isdisjoint(message.row_data.channel_ids)
    return kind in ("session_json", "time_range") or (kind == "event" and events)


@given(MESSAGES, st.booleans(), st.booleans(), st.sets(CHANNELS, max_size=40), st.booleans())
def test_what_is_cut_out_is_what_is_wanted(
    messages: list[stream_pb2.StreamData], events: bool, everything: bool, channels: set[int], is_prefixed: bool
) -> None:
    """In its order, whatever the framing; the raw block holds the whole burst."""
    channels |= {
        message.timestamped_data.channel_id for message in messages[::3] if message.HasField("timestamped_data")
    }
    raw = stream_pb2.StreamDataBurst(data=messages).SerializeToString()
    block, index = burst_index.parse_entry(lz4.block.compress(raw, store_size=is_prefixed), "1-0")
    assert lz4.block.decompress(block, uncompressed_size=1 << 20) == raw
    cut = index.cut(all_events=events, all_channels=everything, channel_ids=frozenset(channels), notices=True)
    wanted = [
        message for message in messages if is_wanted(message, events=events, everything=everything, channels=channels)
    ]
    assert list(stream_pb2.StreamDataBurst.FromString(cut).data) == wanted


@given(MESSAGES)
def test_the_last_message_about_each_channel(messages: list[stream_pb2.StreamData]) -> None:
    """Of messages about one channel; a row counts for all of its channels."""
    single: dict[int, stream_pb2.StreamData] = {}
    rows: dict[int, stream_pb2.StreamData] = {}
    for message in messages:
        kind = message.WhichOneof("data")
        if kind in ("timestamped_data", "periodic_data"):
            single[getattr(message, kind).channel_id] = message
        elif kind == "row_data":
            rows |= dict.fromkeys(message.row_data.channel_ids, message)
    raw = stream_pb2.StreamDataBurst(data=messages).SerializeToString()
    last = burst_index.BurstIndex(raw, "1-0").last_messages()
    parsed = {channel: stream_pb2.StreamDataBurst.FromString(item).data[0] for channel, item in last.items()}
    assert parsed == single | rows


@given(st.binary(max_size=200))
def test_bytes_that_are_no_burst_are_a_bad_burst(data: bytes) -> None:
    """Never another error, whatever stands in an entry."""
    with contextlib.suppress(errors.BadBurst):
        burst_index.BurstIndex(data, "1-0")
    with contextlib.suppress(errors.BadBurst):
        burst_index.parse_entry(data, "1-0")


def test_a_message_that_ends_behind_its_burst_is_refused() -> None:
    """A length is not taken on trust."""
    with pytest.raises(errors.BadBurst, match="ends behind"):
        burst_index.BurstIndex(b"\x0a\x7f\x22\x05", "1-0")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (4, data_pb2.TimestampedData(start_timestamp=7, buffer=b"x" * 200).SerializeToString() + b"\x08\xac\x02"),
        (5, data_pb2.PeriodicData(start_timestamp=7, samples=3).SerializeToString() + b"\x08\xac\x02"),
        (6, data_pb2.RowData(timestamp=7).SerializeToString() + b"\x0a\x03\x01\xac\x02"),
    ],
    ids=["timestamped", "periodic", "row"],
)
def test_fields_in_another_order(kind: int, message: bytes) -> None:
    """The order of the fields of a message is its producer's to choose: the channel may be the last of them."""
    item = bytes([kind << 3 | 2]) + _length(message) + message
    raw = b"\x0a" + _length(item) + item
    index = burst_index.BurstIndex(raw, "s")
    assert index.cut(all_events=False, all_channels=False, channel_ids=frozenset({300}), notices=True) == raw
    assert index.cut(all_events=False, all_channels=False, channel_ids=frozenset({0, 7}), notices=True) == b""
    assert index.last_messages()[300] == raw


def _length(data: bytes) -> bytes:
    return bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 0x7F | 0x80, len(data) >> 7])
