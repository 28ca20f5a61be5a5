"""Strategies for rows and texts, and a second decoder: slow, sample by sample, on plain protobuf classes."""

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import lz4.block
import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from rta_wire import limits
from rta_wire.codec import layout
from rta_wire.pb import stream_pb2

SOAK = bool(os.environ.get("RTA_SOAK"))
"""Set to look for rare faults for longer."""

thorough = settings(
    max_examples=5_000 if SOAK else 150,
    deadline=None,
    derandomize=not SOAK,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

LOW, HIGH = limits.TIME_NS_MIN, limits.TIME_NS_MAX
BASE_NS = 1_700_000_000_000_000_000

any_character = st.one_of(st.characters(), st.sampled_from("\x00\n\x1b\x9b\u2028\ud800\udcff\U0001f600"))
"""Control characters, and surrogates that stand alone, are as likely as all others."""

channel_ids = st.sampled_from([0, 1, 7, 127, 128, 255, 256, 65_535, 65_536, 2**31, 2**32 - 1])
times = st.one_of(
    st.integers(LOW, HIGH),
    st.sampled_from([LOW, LOW + 1, -1, 0, 1, HIGH - 1, HIGH]),
    st.integers(0, 50).map(lambda k: BASE_NS + k * 10_000_000),
    st.tuples(st.integers(0, 50), st.integers(-9, 9)).map(lambda p: BASE_NS + p[0] * 10_000_000 + p[1] * 1_000),
    st.integers(-300, 300),
)
kinds = st.sampled_from(list(layout.Kind))
types = st.sampled_from(list(layout.SampleType))
intervals = st.sampled_from([0, 1, 1_000, 10_000_000])


@st.composite
def layouts(draw: st.DrawFn, type_: layout.SampleType | None = None) -> layout.Layout:
    """A layout that is allowed."""
    kind = draw(kinds)
    interval_ns = draw(intervals) if kind is layout.Kind.PERIODIC else 0
    return layout.Layout(type_ or draw(types), kind, interval_ns)


def plans(type_: layout.SampleType | None = None) -> st.SearchStrategy[layout.Plan]:
    """Layouts for some of the channels, all of one type if one is source."""
    named = st.dictionaries(channel_ids, layouts(type_))
    return st.builds(
        lambda named_layouts, default: layout.Plan(named_layouts.items(), default=default), named, layouts(type_)
    )


def bits(dtype: np.dtype[Any], count: int) -> st.SearchStrategy[npt.NDArray[Any]]:
    """Samples with any bits at all: NaN of every payload, infinities, both zeros."""
    size = dtype.itemsize * count
    return st.binary(min_size=size, max_size=size).map(lambda data: np.frombuffer(data, dtype))


class Rows(NamedTuple):
    """Samples in long form; `valid` says which values are there."""

    channels: npt.NDArray[np.uint32]
    times: npt.NDArray[np.int64]
    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_]


@st.composite
def rows(draw: st.DrawFn, dtype: np.dtype[Any], *, bits_of: bool = True, most: int = 60) -> Rows:
    """Rows in any order, with nulls and with repeated times."""
    keys = draw(st.lists(st.tuples(channel_ids, times), max_size=most))
    small = st.lists(st.integers(0, 100), min_size=len(keys), max_size=len(keys)).map(lambda v: np.array(v, dtype))
    return Rows(
        np.array([key[0] for key in keys], np.uint32),
        np.array([key[1] for key in keys], np.int64),
        draw(bits(dtype, len(keys)) if bits_of else small),
        np.array(draw(st.lists(st.booleans() | st.just(True), min_size=len(keys), max_size=len(keys))), np.bool_),
    )


SamplesByChannel = dict[int, list[tuple[int, bytes]]]
"""For each channel its times and the bytes of its samples, in order."""


def wanted(source: Rows, layouts_: layout.Plan, group_rows: int) -> SamplesByChannel:
    """What must come out: within each group of rows, each channel in time order, equal times as they came."""
    by_channel: SamplesByChannel = {}
    for first in range(0, len(source.channels), group_rows):
        group: SamplesByChannel = {}
        for row in range(first, min(first + group_rows, len(source.channels))):
            if source.valid[row]:
                channel = int(source.channels[row])
                sample = source.values[row].astype(layouts_.layout(channel).type.dtype).tobytes()
                group.setdefault(channel, []).append((int(source.times[row]), sample))
        for channel, samples in group.items():
            by_channel.setdefault(channel, []).extend(sorted(samples, key=lambda sample: sample[0]))
    return by_channel


def parsed(datas: Iterable[bytes], layouts_: layout.Plan) -> SamplesByChannel:
    """Decodes with nothing but LZ4, plain protobuf classes and Python's integers."""
    by_channel: SamplesByChannel = {}
    for data in datas:
        raw = lz4.block.decompress(data, uncompressed_size=limits.BURST_MAX_BYTES)
        message = stream_pb2.StreamDataBurst.FromString(raw)
        assert message.SerializeToString() == raw, "protobuf would have written other bytes"
        for item in message.data:
            add(by_channel, item, layouts_)
    return by_channel


def add(by_channel: SamplesByChannel, item: stream_pb2.StreamData, layouts_: layout.Plan) -> None:
    """The samples of one message."""
    kind = item.WhichOneof("data")
    if kind == "timestamped_data":
        stamped = item.timestamped_data
        assert stamped.timestamp_deltas[0] == 0
        time = stamped.start_timestamp
        stamps = [time := time + delta * stamped.timestamp_deltas_scale for delta in stamped.timestamp_deltas]
        _put(by_channel, stamped.channel_id, stamps, stamped.buffer)
    elif kind == "periodic_data":
        even = item.periodic_data
        stamps = [even.start_timestamp + k * even.interval for k in range(even.samples)]
        _put(by_channel, even.channel_id, stamps, even.buffer)
    elif kind == "row_data":
        spot = 0
        for channel in item.row_data.channel_ids:
            width = layouts_.layout(channel).type.dtype.itemsize
            sample = item.row_data.buffer[spot : spot + width]
            by_channel.setdefault(channel, []).append((item.row_data.timestamp, sample))
            spot += width
        assert spot == len(item.row_data.buffer)
    else:
        raise AssertionError(kind)


def _put(by_channel: SamplesByChannel, channel: int, stamps: list[int], buffer: bytes) -> None:
    width, rest = divmod(len(buffer), len(stamps))
    assert rest == 0
    samples = [buffer[k * width : (k + 1) * width] for k in range(len(stamps))]
    by_channel.setdefault(channel, []).extend(zip(stamps, samples, strict=True))
