"""What the encoder promises beyond the round trip: scales, cuts, determinism, sizes, and errors that name a row."""

import collections
import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import lz4.block
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors, limits
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import decode, encode, event_messages, layout
from rta_wire.pb import data_pb2, stream_pb2
from tests.unit.wire import strategies as g

MS = 1_000_000


def items(bursts: Iterator[codec_burst.Burst] | list[codec_burst.Burst]) -> list[stream_pb2.StreamData]:
    """All messages of some bursts, parsed by protobuf."""
    return [item for burst in bursts for item in decode.burst(burst.data).data]


def one_channel(times: Any, **options: Any) -> list[data_pb2.TimestampedData]:
    """The messages of a channel with samples at these times."""
    stamps = np.array(times, np.int64)
    made = encode.Encoder(options=encode.Options(**options)).rows(
        np.zeros(len(stamps), np.uint32), stamps, np.arange(len(stamps), dtype=np.float64)
    )
    return [item.timestamped_data for item in items(made)]


@pytest.mark.parametrize(
    ("times", "scale", "deltas"),
    [
        ([5], 1, [0]),
        ([5, 5, 5], 1, [0, 0, 0]),
        ([0, 10 * MS, 20 * MS], 10 * MS, [0, 1, 1]),
        ([0, 10 * MS, 21 * MS, 30 * MS], MS, [0, 10, 11, 9]),
        ([0, 300, 300, 900], 300, [0, 1, 0, 2]),
        ([0, 7, 10], 1, [0, 7, 3]),
        ([-(2**62), 2**62 - 2], 2**63 - 2, [0, 1]),
        ([0, 2**60, 2**60 + 2**55], 2**55, [0, 32, 1]),
    ],
)
def test_scale_is_the_interval_or_the_greatest_common_divisor(times: list[int], scale: int, deltas: list[int]) -> None:
    """Deltas are as small as they can be, and a constant interval makes every delta 1."""
    (message,) = one_channel(times)
    assert message.start_timestamp == times[0]
    assert message.timestamp_deltas_scale == scale
    assert list(message.timestamp_deltas) == deltas


def test_late_samples_have_negative_deltas_where_order_is_kept() -> None:
    """A late sample stays in its place and the delta to it is negative."""
    (message,) = one_channel([30, 40, 20, 50], in_time_order=False)
    assert [message.timestamp_deltas_scale * delta for delta in message.timestamp_deltas] == [0, 10, -20, 30]


def test_times_too_far_apart_for_a_delta_start_a_new_message() -> None:
    """A distance beyond 63 bits can't be a delta, so the run is cut there."""
    messages = one_channel([limits.TIME_NS_MIN, limits.TIME_NS_MIN + 1, limits.TIME_NS_MAX])
    assert [(m.start_timestamp, list(m.timestamp_deltas)) for m in messages] == [
        (limits.TIME_NS_MIN, [0, 1]),
        (limits.TIME_NS_MAX, [0]),
    ]


def test_a_distance_without_an_absolute_value_starts_a_new_message() -> None:
    """The lowest delta of all would make a negative scale, which readers need not expect."""
    messages = one_channel([0, limits.TIME_NS_MIN, limits.TIME_NS_MIN + 7], in_time_order=False)
    assert [(m.start_timestamp, m.timestamp_deltas_scale, list(m.timestamp_deltas)) for m in messages] == [
        (0, 1, [0]),
        (limits.TIME_NS_MIN, 7, [0, 1]),
    ]


def test_periodic_runs_are_split_at_gaps() -> None:
    """A missing sample ends a message, and the distance over the gap belongs to no message."""
    layouts = layout.Plan([(4, layout.Layout(layout.SampleType.INT16, layout.Kind.PERIODIC))])
    times = np.array([0, 10, 20, 30, 70, 80, 90, 500], np.int64)
    found = [
        (m.start_timestamp, m.interval, m.samples, len(m.buffer))
        for m in (item.periodic_data for item in items(encode.Encoder(layouts).rows(np.full(8, 4), times, times)))
    ]
    assert found == [(0, 10, 4, 8), (70, 10, 3, 6), (500, 0, 1, 2)]


def test_a_known_interval_is_kept_even_for_a_single_sample() -> None:
    """Where the configuration knows the interval, every message carries it and every other distance is a gap."""
    layouts = layout.Plan(default=layout.Layout(kind=layout.Kind.PERIODIC, interval_ns=10))
    times = np.array([0, 10, 15, 25, 60], np.int64)
    made = encode.Encoder(layouts).rows(np.zeros(5, np.uint32), times, times * 1.0)
    found = [(m.start_timestamp, m.interval, m.samples) for m in (item.periodic_data for item in items(made))]
    assert found == [(0, 10, 2), (15, 10, 2), (60, 10, 1)]


def test_rows_hold_the_channels_of_one_time() -> None:
    """One message per time with the channels that have a value, ascending, each in its own width."""
    layouts = layout.Plan(
        [
            (9, layout.Layout(layout.SampleType.UINT8, layout.Kind.ROW)),
            (300, layout.Layout(layout.SampleType.INT16, layout.Kind.ROW)),
        ]
    )
    values = {300: pa.array([1, -2, None], pa.int16()), 9: pa.array([7, None, 255], pa.int64())}
    made = items(encode.Encoder(layouts).table(np.array([100, 200, 300]), values))
    found = [(list(m.channel_ids), m.timestamp, m.buffer) for m in (item.row_data for item in made)]
    assert found == [([9, 300], 100, b"\x07\x01\x00"), ([300], 200, b"\xfe\xff"), ([9], 300, b"\xff")]


def test_a_second_sample_at_one_time_starts_another_row() -> None:
    """A message never names a channel twice."""
    layouts = layout.Plan(default=layout.Layout(kind=layout.Kind.ROW))
    made = items(encode.Encoder(layouts).rows(np.array([1, 2, 1]), np.zeros(3, np.int64), np.array([1.0, 2.0, 3.0])))
    assert [list(item.row_data.channel_ids) for item in made] == [[1, 2], [1]]


def test_more_channels_than_16_bits_can_number() -> None:
    """A group may hold any number of channels, with ids up to the last one."""
    ids = np.linspace(0, limits.CHANNEL_ID_MAX, 70_000).astype(np.uint32)
    order = np.random.default_rng(1).permutation(len(ids))
    options = encode.Options(group_rows=len(ids))
    bursts = list(encode.Encoder(options=options).rows(ids[order], ids[order].astype(np.int64), ids[order] * 1.0))
    (found,) = decode.columns([burst.data for burst in bursts]).samples.values()
    np.testing.assert_array_equal(found.channels, ids)
    np.testing.assert_array_equal(found.values, ids * 1.0)
    assert (len(np.unique(ids)), ids[-1]) == (70_000, limits.CHANNEL_ID_MAX)


def long_batch(count: int) -> pa.RecordBatch:
    """Rows of ten channels, some late, some null."""
    rng = np.random.default_rng(7)
    times = np.arange(count) * 100_000 + rng.integers(0, 300, count) * 1_000
    values = pa.array(rng.normal(size=count), mask=rng.random(count) < 0.05)
    return pa.record_batch(
        {
            "channel": rng.integers(0, 10, count).astype(np.int32),
            "time": pa.array(times, pa.timestamp("ns")),
            "value": values,
        }
    )


@given(cuts=st.lists(st.integers(0, 5000), max_size=6))
@g.thorough
def test_bursts_do_not_depend_on_how_rows_are_batched(cuts: list[int]) -> None:
    """The same rows in any batches make the same bursts, byte by byte."""
    batch = long_batch(5000)
    options = encode.Options(group_rows=1500, target_bytes=4096)
    edges = [0, *sorted(cuts), 5000]
    parts = [batch.slice(first, last - first) for first, last in itertools.pairwise(edges)]
    assert list(encode.Encoder(options=options).long(parts)) == list(encode.Encoder(options=options).long([batch]))


def test_an_encoder_keeps_nothing_between_calls() -> None:
    """Used again, or twice at the same time, an encoder makes the same bursts."""
    batch = long_batch(20_000)
    encoder = encode.Encoder(options=encode.Options(group_rows=4096, target_bytes=8192))
    fresh = list(encoder.long([batch]))
    assert len(fresh) > 10
    assert list(encoder.long([batch])) == fresh
    pairs = list(itertools.zip_longest(encoder.long([batch]), encoder.long([batch.slice(100)])))
    assert [pair[0] for pair in pairs if pair[0]] == fresh


@pytest.mark.parametrize("target_bytes", [1000, 10_000, limits.BURST_TARGET_BYTES, limits.BURST_MAX_BYTES // 2])
@pytest.mark.parametrize("channels", [1, 3, 500])
def test_bursts_are_near_their_target_and_never_over_the_limit(target_bytes: int, channels: int) -> None:
    """A channel that is too large for one burst is split; bursts come out about even."""
    count = 120_000
    options = encode.Options(target_bytes=target_bytes, group_rows=count)
    ids = (np.arange(count) % channels).astype(np.uint32)
    bursts = list(encode.Encoder(options=options).rows(ids, np.arange(count) * MS, np.ones(count)))
    sizes = [burst.raw_bytes for burst in bursts]
    largest_message = 9 * min(limits.ENCODE_RUN_SAMPLES, count // channels) + 50
    assert max(sizes) <= min(target_bytes + largest_message, limits.BURST_MAX_BYTES)
    assert sum(burst.samples for burst in bursts) == count
    if target_bytes > 2 * largest_message:
        assert min(sizes) > target_bytes // 4


def test_wide_rows_share_their_deltas_and_match_the_long_form() -> None:
    """A table in wide form decodes to what the same samples in long form decode to."""
    count = 5000
    times = np.cumsum(np.random.default_rng(3).integers(1, 2**30, count))
    values = {channel: np.arange(count) * (channel + 0.5) for channel in (1, 2, 70_000)}
    wide = decode.columns([burst.data for burst in encode.Encoder().table(times, values)])
    ids = np.repeat(np.array(list(values), np.uint32), count)
    rows = encode.Encoder().rows(ids, np.tile(times, 3), np.concatenate(list(values.values())))
    long = decode.columns([burst.data for burst in rows])
    (one,), (other,) = wide.samples.values(), long.samples.values()
    assert one.by_channel().keys() == other.by_channel().keys()
    for channel, (stamps, made) in one.by_channel().items():
        np.testing.assert_array_equal(stamps, other.by_channel()[channel][0])
        np.testing.assert_array_equal(made, other.by_channel()[channel][1])


def test_wide_batches_may_be_cut_anywhere() -> None:
    """The same table in any batches makes the same bursts, byte by byte."""
    count = 9000
    table = pa.record_batch(
        {
            "time": pa.array(np.arange(count) * 1000, pa.timestamp("us", "UTC")),
            "a": pa.array(np.arange(count) * 0.5),
            "b": pa.array(np.arange(count), mask=np.arange(count) % 7 == 0),
        }
    )
    channels = {"a": 1, "b": 2}
    whole = list(encode.Encoder().wide([table], channels))
    parts = [table.slice(first, 1234) for first in range(0, count, 1234)]
    assert list(encode.Encoder().wide(parts, channels)) == whole
    assert sum(burst.samples for burst in whole) == count + int((np.arange(count) % 7 != 0).sum())


@pytest.mark.parametrize(("unit", "factor"), [("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris"])
def test_timestamps_of_every_unit_keep_every_nanosecond(unit: str, factor: int, zone: str | None) -> None:
    """Arrow and numpy timestamps are the same instant in nanoseconds, up to the ends of 64 bits."""
    ticks = np.array(
        [limits.TIME_NS_MAX // factor, -(limits.TIME_NS_MAX // factor), 0, 1_700_000_000_123_456_789 // factor]
    )
    sources = [pa.array(ticks, pa.timestamp(unit, zone)), ticks.view(f"M8[{unit}]")]
    for source in sources:
        bursts = encode.Encoder().rows(np.arange(4, dtype=np.uint32), source, np.ones(4))
        found = [item.timestamped_data.start_timestamp for item in items(bursts)]
        assert found == (ticks * factor).tolist()


def test_masked_arrays_and_dictionaries_are_understood() -> None:
    """A masked value is absent, and a dictionary-encoded column is its values."""
    masked = np.ma.MaskedArray([1.0, 2.0, 3.0], mask=[False, True, False])
    bursts = list(encode.Encoder().rows(pa.array([5, 5, 5]).dictionary_encode(), np.arange(3), masked))
    (found,) = decode.columns([burst.data for burst in bursts]).samples.values()
    assert (found.times_ns.tolist(), found.values.tolist()) == ([0, 2], [1.0, 3.0])


def test_events_keep_their_order_and_every_field() -> None:
    """Events from batches come out as they went in, and the totals count them."""
    batch = pa.record_batch(
        {
            "event_definition_id": pa.array([3, -1], pa.int32()),
            "time": pa.array([10, 20], pa.timestamp("us")),
            "app_name": ["gearbox", None],
            "status_text": ["über", "x"],
            "raw_data": [[1.5, float("nan")], None],
        }
    )
    made = list(event_messages.from_batches([batch, batch]))
    bursts = list(encode.Encoder().events(made))
    assert [burst.events for burst in bursts] == [4]
    assert (bursts[0].start_ns, bursts[0].end_ns, bursts[0].samples) == (10_000, 20_000, 0)
    found = decode.columns([burst.data for burst in bursts]).events
    assert [event.SerializeToString() for event in found] == [event.SerializeToString() for event in made]
    assert (found[0].app_name, found[0].status_text, len(found[1].raw_data)) == ("gearbox", "über", 0)


def test_large_events_do_not_push_a_burst_over_the_limit() -> None:
    """Events near 1 MiB get bursts of their own, and one beyond it is refused."""
    large = [
        event_messages.event(1, 5, status_text="x" * 700_000),
        event_messages.event(2, 6),
        event_messages.event(3, 7, status_text="y" * 700_000),
    ]
    bursts = list(encode.Encoder().events(large))
    assert max(burst.raw_bytes for burst in bursts) <= limits.BURST_MAX_BYTES
    assert [event.event_definition_id for event in decode.columns([b.data for b in bursts]).events] == [1, 2, 3]
    with pytest.raises(errors.BadSamples, match="over 1048576"):
        list(encode.Encoder().events([event_messages.event(1, 5, status_text="x" * 1_100_000)]))


def test_tiny_events_do_not_pass_the_cap_on_messages() -> None:
    """A burst never holds more messages than a reader accepts."""
    assert max(
        last - first for first, last in codec_burst.cut_ranges(np.full(200_000, 4), limits.BURST_MAX_BYTES // 2)
    ) == (limits.BURST_MAX_MESSAGES)


def test_session_json_and_time_range_are_alone_in_their_burst() -> None:
    """Both decode to what went in, and what is no text or no time is refused."""
    found = decode.columns([encode.session_json('{"a": "ü"}'.encode()), encode.time_range(-5, limits.TIME_NS_MAX)])
    assert (found.session_json, found.time_ranges_ns) == (['{"a": "ü"}'], [(-5, limits.TIME_NS_MAX)])
    with pytest.raises(errors.BadSamples, match="not UTF-8"):
        encode.session_json(b"\xff")
    for start_ns in (0, 1):
        with pytest.raises(errors.BadSamples, match="no range"):
            encode.time_range(start_ns, 2**63)
    with pytest.raises(errors.BadSamples, match="over 1048576"):
        encode.session_json(b"x" * (limits.BURST_MAX_BYTES + 1))


def test_the_short_form_for_doubles_still_serves() -> None:
    """`timestamped` is the encoder with everything at its default."""
    ids, times, values = np.array([2, 1], np.uint32), np.array([5, 6]), np.array([0.5, 1.5])
    assert list(encode.encode_doubles(ids, times, values)) == list(encode.Encoder().rows(ids, times, values))


def peak_bytes(bursts: Callable[[], Iterator[codec_burst.Burst]]) -> int:
    """The most memory that encoding takes at any time, above what was there before."""
    collections.deque(bursts(), maxlen=0)
    tracemalloc.start()
    collections.deque(bursts(), maxlen=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("kind", list(layout.Kind))
def test_long_rows_need_at_most_three_times_their_size(kind: layout.Kind) -> None:
    """Memory while encoding a group of rows with nulls and late samples, above what the batch itself takes."""
    count = limits.ENCODE_GROUP_ROWS
    rng = np.random.default_rng(9)
    order = np.argsort(np.arange(count) + rng.integers(0, 100, count))
    batch = pa.record_batch(
        {
            "channel": (order % 10).astype(np.uint32),
            "time": order // 10 * MS,
            "value": pa.array(rng.normal(size=count), mask=rng.random(count) < 0.02),
        }
    )
    encoder = encode.Encoder(layout.Plan(default=layout.Layout(kind=kind)))
    assert peak_bytes(lambda: encoder.long([batch])) <= 3 * batch.nbytes


@pytest.mark.parametrize("kind", list(layout.Kind))
@pytest.mark.parametrize("nulls", [0, 7])
def test_wide_rows_need_at_most_three_times_their_size(kind: layout.Kind, nulls: int) -> None:
    """The same for a table, whose columns take only eight bytes a sample."""
    count = limits.ENCODE_WIDE_ROWS
    mask = np.arange(count) % nulls == 0 if nulls else None
    columns = {str(k): pa.array(np.arange(count) * (k + 0.5), mask=mask) for k in range(20)}
    batch = pa.record_batch({"time": np.arange(count) * MS} | columns)
    encoder = encode.Encoder(layout.Plan(default=layout.Layout(kind=kind)))
    assert peak_bytes(lambda: encoder.wide([batch], {str(k): k for k in range(20)})) <= 3 * batch.nbytes


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.sampled_from(codec_burst.Framing))
def test_a_time_range_is_what_protobuf_makes_of_it(start_ns: int, end_ns: int, framing: codec_burst.Framing) -> None:
    """Byte by byte under LZ4, whichever way it was made."""
    made = encode.time_range(start_ns, end_ns, encode.Options(framing=framing))
    covers = stream_pb2.StreamTimeRange(start_time=start_ns, end_time=end_ns)
    wanted = stream_pb2.StreamDataBurst(data=[stream_pb2.StreamData(time_range=covers)]).SerializeToString()
    prefix = len(wanted).to_bytes(4, "little") if framing is codec_burst.Framing.SIZE_PREFIXED else b""
    assert made.startswith(prefix)
    found = lz4.block.decompress(made[len(prefix) :], uncompressed_size=limits.BURST_MAX_BYTES)
    assert found == wanted
