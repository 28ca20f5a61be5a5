"""Messages of others, caps, and errors that say which entry and why."""

import struct
import time
import tracemalloc
from collections.abc import Callable

import lz4.block
import numpy as np
import pytest

from rta_wire import errors, limits
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import decode, encode, layout
from rta_wire.codec.protobuf import varint
from rta_wire.pb import data_pb2, stream_pb2
from rta_wire.stream import cursor

Burst = stream_pb2.StreamDataBurst
Item = stream_pb2.StreamData
Stamped = data_pb2.TimestampedData


def stored(raw: bytes) -> bytes:
    """Bytes as they are stored, whatever they are."""
    data: bytes = lz4.block.compress(raw, store_size=False)
    return data


def doubles(*values: float) -> bytes:
    """Samples of the default type."""
    return np.array(values, "<f8").tobytes()


def both(raw: bytes, layouts: layout.Plan | None = None) -> decode.SampleColumns:
    """The only columns in a burst."""
    (found,) = decode.columns([stored(raw)], layouts).samples.values()
    return found


def stamped(**fields: object) -> bytes:
    """A burst with one timestamped message."""
    return Burst(data=[Item(timestamped_data=Stamped(**fields))]).SerializeToString()  # type: ignore[arg-type]


def test_messages_of_all_kinds_decode_to_the_columns_that_they_mean() -> None:
    """A burst built with plain protobuf classes, all kinds and several types in it, gives their samples."""
    layouts = layout.Plan([(2, layout.Layout(layout.SampleType.INT16)), (3, layout.Layout(layout.SampleType.UINT8))])
    burst = Burst(
        data=[
            Item(session_json="{}"),
            Item(time_range=stream_pb2.StreamTimeRange(start_time=-1, end_time=9)),
            Item(
                timestamped_data=Stamped(
                    channel_id=1,
                    start_timestamp=100,
                    timestamp_deltas_scale=10,
                    timestamp_deltas=[0, 3, -2],
                    buffer=doubles(1, 2, 3),
                )
            ),
            Item(
                periodic_data=data_pb2.PeriodicData(
                    channel_id=2, start_timestamp=5, interval=7, samples=2, buffer=b"\x01\x00\xff\xff"
                )
            ),
            Item(
                row_data=data_pb2.RowData(
                    channel_ids=[3, 1, 2], timestamp=50, buffer=b"\x09" + doubles(0.5) + b"\x02\x00"
                )
            ),
            Item(event=data_pb2.Event(event_definition_id=4, raw_data=[1.5])),
            Item(),
        ]
    )
    found = decode.columns([stored(burst.SerializeToString())], layouts)
    samples = {
        kind.value: {
            channel: (times.tolist(), values.tolist()) for channel, (times, values) in part.by_channel().items()
        }
        for kind, part in found.samples.items()
    }
    assert samples == {
        "double": {1: ([100, 130, 110, 50], [1.0, 2.0, 3.0, 0.5])},
        "int16": {2: ([5, 12, 50], [1, -1, 2])},
        "uint8": {3: ([50], [9])},
    }
    assert (found.session_json, found.time_ranges_ns) == (["{}"], [(-1, 9)])
    assert found.events == [data_pb2.Event(event_definition_id=4, raw_data=[1.5])]


def number(field: int, value: int) -> bytes:
    """A varint field as any writer may put it."""
    return (
        bytes([field << 3])
        + varint.encode(np.array([value], np.uint64), varint.widths(np.array([value], np.uint64))).tobytes()
    )


def chunk(field: int, data: bytes) -> bytes:
    """A field that starts with its length, written with more bytes than needed."""
    return bytes([field << 3 | 2, len(data) & 0x7F | 0x80, len(data) >> 7]) + data


PLAIN = number(1, 9) + b"\x11" + struct.pack("<q", 1000) + number(3, 5)


@pytest.mark.parametrize(
    "body",
    [
        PLAIN + chunk(4, b"\x00\x01\x02") + chunk(5, doubles(1, 2, 3)),
        chunk(5, doubles(1, 2, 3)) + chunk(4, b"\x00\x01\x02") + PLAIN,
        PLAIN + number(4, 0) + number(4, 1) + number(4, 2) + chunk(5, doubles(1, 2, 3)),
        PLAIN + chunk(4, b"\x00") + number(4, 1) + chunk(4, b"\x02") + chunk(5, doubles(1, 2, 3)),
        PLAIN + chunk(4, b"\x80\x00\x81\x80\x00\x02") + chunk(5, doubles(1, 2, 3)),
        number(1, 77) + PLAIN + chunk(5, b"junk") + chunk(4, b"\x00\x01\x02") + chunk(5, doubles(1, 2, 3)),
        PLAIN + number(15, 12345) + chunk(4, b"\x00\x01\x02") + chunk(14, b"later") + chunk(5, doubles(1, 2, 3)),
    ],
    ids=["long lengths", "reversed", "unpacked", "mixed", "long varints", "repeated", "unknown fields"],
)
def test_any_layout_that_protobuf_accepts_gives_the_same_columns(body: bytes) -> None:
    """Other writers may order, repeat, pack and pad fields as they like."""
    raw = chunk(1, chunk(4, body))
    assert list(Burst.FromString(raw).data[0].timestamped_data.timestamp_deltas) == [0, 1, 2]
    found = both(raw)
    assert (found.channels.tolist(), found.times_ns.tolist(), found.values.tolist()) == (
        [9],
        [1000, 1005, 1015],
        [1.0, 2.0, 3.0],
    )


def test_a_message_in_two_pieces_is_merged_as_protobuf_does() -> None:
    """The same message field twice in one item is one message, and a later kind replaces an earlier one."""
    split = chunk(4, PLAIN + chunk(4, b"\x00")) + chunk(4, chunk(4, b"\x01") + chunk(5, doubles(1, 2)))
    assert both(chunk(1, split)).times_ns.tolist() == [1000, 1005]
    replaced = chunk(2, b"{}") + split
    assert not decode.columns([stored(chunk(1, replaced))]).session_json


def test_kinds_that_are_not_known_yet_are_passed_by() -> None:
    """A field that a later version of the protocol adds does not stop a reader."""
    raw = chunk(1, chunk(12, b"new")) + stamped(channel_id=1, timestamp_deltas=[0], buffer=doubles(1))
    assert both(raw).channels.tolist() == [1]


def test_empty_messages_have_no_samples() -> None:
    """A message without samples is legal and adds nothing."""
    raw = (
        stamped(channel_id=1)
        + Burst(data=[Item(periodic_data=data_pb2.PeriodicData(channel_id=2))]).SerializeToString()
    )
    assert decode.columns([stored(raw), stored(b"")]).samples == {}
    found = both(raw + stamped(channel_id=3, timestamp_deltas=[0], buffer=doubles(4)) + stamped(channel_id=4))
    assert (found.channels.tolist(), found.offsets.tolist()) == ([3], [0, 1])


EVEN = data_pb2.PeriodicData
ROW = data_pb2.RowData


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (Item(timestamped_data=Stamped(buffer=b"1234567")), "7 bytes of channel 0 are not whole samples of 8 bytes"),
        (
            Item(timestamped_data=Stamped(buffer=doubles(1, 2), timestamp_deltas=[0])),
            "channel 0 has 2 samples and not as many deltas",
        ),
        (Item(timestamped_data=Stamped(timestamp_deltas=[0])), "channel 0 has 0 samples and not as many deltas"),
        (
            Item(timestamped_data=Stamped(buffer=doubles(1), timestamp_deltas=[5])),
            "channel 0 starts with the delta 5, not 0",
        ),
        (
            Item(
                timestamped_data=Stamped(
                    start_timestamp=2**62, timestamp_deltas_scale=2**61, timestamp_deltas=[0, 2], buffer=doubles(1, 2)
                )
            ),
            "channel 0 has a time that does not fit 64 bits",
        ),
        (
            Item(
                timestamped_data=Stamped(
                    timestamp_deltas_scale=2**40, timestamp_deltas=[0, 2**40, -(2**40)], buffer=doubles(1, 2, 3)
                )
            ),
            "channel 0 has a time that does not fit 64 bits",
        ),
        (Item(periodic_data=EVEN(samples=2**31 - 1, buffer=doubles(1))), "claims 2147483647 samples and holds 1"),
        (Item(periodic_data=EVEN(samples=-1)), "claims -1 samples and holds 0"),
        (Item(periodic_data=EVEN(samples=2, interval=2**63 - 1, start_timestamp=1, buffer=doubles(1, 2))), "64 bits"),
        (Item(row_data=ROW(channel_ids=[1, 2], buffer=doubles(1))), "a row at 0 ns holds 8 bytes for channels of 16"),
        (Item(row_data=ROW(buffer=doubles(1))), "a row at 0 ns holds 8 bytes for channels of 0"),
    ],
)
def test_counts_that_do_not_match_the_bytes_are_refused(item: Item, words: str) -> None:
    """What a message claims is checked against what it holds, and the error names the entry."""
    good = stored(stamped(channel_id=1, timestamp_deltas=[0], buffer=doubles(1)))
    entry = cursor.StreamEntry("17-3", 1, stored(Burst(data=[item]).SerializeToString()))
    with pytest.raises(errors.BadBurst, match=f"entry 17-3: .*{words}") as caught:
        decode.entries([cursor.StreamEntry("17-2", 1, good), entry])
    assert caught.value.facts["entry"] == "17-3"


@pytest.mark.parametrize("cut", [b"\x00\x81", b"\x00\x01\x80"], ids=["one too few", "as many as samples"])
def test_deltas_that_end_inside_a_number_do_not_borrow_from_the_next_message(cut: bytes) -> None:
    """Deltas of all messages are decoded together, but each message must be whole by itself."""
    head, tail = PLAIN + b"\x22", b"\x2a\x10" + doubles(1, 2)
    first, second = (head + bytes([len(deltas)]) + deltas + tail for deltas in (cut, b"\x00\x01"))
    with pytest.raises(errors.BadBurst, match="entry 0: "):
        decode.columns([stored(canonical(4, first) + canonical(4, second))])


def test_channels_of_a_row_that_end_inside_a_number_do_not_borrow_either() -> None:
    """The same for the channel ids of rows."""
    first = b"\x0a\x02\x01\x82" + b"\x1a\x08" + doubles(1)
    second = b"\x0a\x01\x01" + b"\x1a\x08" + doubles(2)
    with pytest.raises(errors.BadBurst, match="entry 0: "):
        decode.columns([stored(canonical(6, first) + canonical(6, second))])


def canonical(field: int, body: bytes) -> bytes:
    """A message in a burst, with lengths as short as protobuf writes them. For less than 128 bytes."""
    return bytes([0x0A, len(body) + 2, field << 3 | 2, len(body)]) + body


def test_an_lz4_bomb_is_stopped_at_the_limit() -> None:
    """A few kilobytes that unpack to more than 1 MiB are refused, without taking the memory that they ask for."""
    bomb = stored(bytes(256 * limits.MIB))
    tracemalloc.start()
    with pytest.raises(errors.BadBurst, match="not an LZ4 block of at most 1048576 bytes"):
        decode.columns([bomb])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * limits.MIB


@pytest.mark.parametrize("read", [decode.burst, lambda data: decode.columns([data])])
def test_a_burst_of_too_many_messages_is_refused_before_they_are_walked(read: Callable[[bytes], object]) -> None:
    """Half a million empty messages fit 1 MiB and take their time: the count is checked first."""
    many = stored(b"\x0a\x00" * (limits.BURST_MAX_MESSAGES + 1))
    with pytest.raises(errors.BadBurst, match="65537 messages are more than 65536"):
        read(many)
    read(stored(b"\x0a\x00" * limits.BURST_MAX_MESSAGES))
    started_s = time.perf_counter()
    with pytest.raises(errors.BadBurst, match="524288 messages are more than 65536"):
        read(stored(b"\x0a\x00" * (limits.BURST_MAX_BYTES // 2)))
    assert time.perf_counter() - started_s < 2


@pytest.mark.parametrize("claimed", [0, 1, 2**31, 2**32 - 1])
def test_a_size_that_lies_changes_nothing(claimed: int) -> None:
    """With a size before the block the cap stays the cap, and a wrong size is an error."""
    data = encode.time_range(1, 2, encode.Options(framing=codec_burst.Framing.SIZE_PREFIXED))
    assert decode.columns([data], framing=codec_burst.Framing.SIZE_PREFIXED).time_ranges_ns == [(1, 2)]
    with pytest.raises(errors.BadBurst, match=f"entry 0: the size before it says {claimed} bytes"):
        decode.columns([struct.pack("<I", claimed) + data[4:]], framing=codec_burst.Framing.SIZE_PREFIXED)
    with pytest.raises(errors.BadBurst, match="3 bytes are too few for a size"):
        decode.columns([data[:3]], framing=codec_burst.Framing.SIZE_PREFIXED)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\x0a", "not a StreamDataBurst"),
        (b"\x0a\x05\x22\x7f", "not a StreamDataBurst"),
        (chunk(1, chunk(7, b"\x12\x02\xff\xff")), "not a (StreamDataBurst|message of type Event)"),
        (chunk(1, chunk(3, b"\x09\x01")), "not a (StreamDataBurst|message of type StreamTimeRange)"),
        (chunk(1, chunk(2, b"\xff")), "not a StreamDataBurst"),
    ],
)
def test_bytes_that_are_no_message_are_refused(raw: bytes, words: str) -> None:
    """Cut messages and texts that are no UTF-8 are errors with a name, in both ways to decode."""
    with pytest.raises(errors.BadBurst, match=words):
        decode.columns([stored(raw)])
    with pytest.raises(errors.BadBurst, match="not a StreamDataBurst"):
        decode.burst(stored(raw))
