"""Rows to bursts and back: every time and every bit, for all kinds and types."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire.codec import burst as codec_burst
from rta_wire.codec import decode, encode, layout
from tests.unit.wire import strategies as g


def columns(datas: list[bytes], layouts: layout.Plan) -> g.SamplesByChannel:
    """Our own decoder's columns in the form that the slow one gives."""
    by_channel: g.SamplesByChannel = {}
    for kind, part in decode.columns(datas, layouts).samples.items():
        assert part.values.dtype == kind.dtype
        for channel, (times, values) in part.by_channel().items():
            assert layouts.layout(channel).type is kind
            raw, width = values.tobytes(), kind.dtype.itemsize
            samples = [raw[k * width : (k + 1) * width] for k in range(len(times))]
            by_channel.setdefault(channel, []).extend(zip(times.tolist(), samples, strict=True))
    return by_channel


def masked(rows: g.Rows) -> pa.Array:
    """The values as Arrow has them, nulls included."""
    return pa.array(rows.values, mask=~rows.valid)


def check(bursts: list[codec_burst.Burst], wanted: g.SamplesByChannel, layouts: layout.Plan) -> None:
    """Both decoders must find the same, and the totals must say so."""
    datas = [burst.data for burst in bursts]
    assert g.parsed(datas, layouts) == wanted
    assert columns(datas, layouts) == wanted
    assert sum(burst.samples for burst in bursts) == sum(map(len, wanted.values()))
    times = [time for samples in wanted.values() for time, _ in samples]
    if times:
        assert min(burst.start_ns for burst in bursts) == min(times)
        assert max(burst.end_ns for burst in bursts) == max(times)
    else:
        assert not bursts


@pytest.mark.parametrize("kind", list(layout.SampleType))
@g.thorough
@given(data=st.data())
def test_long_rows_come_back_bit_by_bit(kind: layout.SampleType, data: st.DataObject) -> None:
    """Any bits of any type, in any order, with nulls, in groups of any size, are there after decoding."""
    rows = data.draw(g.rows(kind.dtype))
    layouts = data.draw(g.plans(kind))
    options = encode.Options(
        target_bytes=data.draw(st.sampled_from([1, 64, 1024])), group_rows=data.draw(st.sampled_from([1, 7, 1000]))
    )
    bursts = list(encode.Encoder(layouts, options).rows(rows.channels, rows.times, masked(rows)))
    check(bursts, g.wanted(rows, layouts, options.group_rows), layouts)


@g.thorough
@given(rows=g.rows(np.dtype("<f8"), bits_of=False), layouts=g.plans())
def test_channels_of_different_types_share_a_column(rows: g.Rows, layouts: layout.Plan) -> None:
    """A column of doubles feeds channels of every type and kind, and bursts mix them."""
    options = encode.Options(group_rows=50)
    bursts = list(encode.Encoder(layouts, options).rows(rows.channels, rows.times, masked(rows)))
    check(bursts, g.wanted(rows, layouts, options.group_rows), layouts)


@g.thorough
@given(data=st.data())
def test_wide_rows_come_back_bit_by_bit(data: st.DataObject) -> None:
    """A column per channel, each with its own type, kind and nulls, is there after decoding."""
    times = np.array(data.draw(st.lists(g.times, max_size=40)), np.int64)
    ids = data.draw(st.lists(g.channel_ids, unique=True, min_size=1, max_size=5))
    layouts = data.draw(g.plans())
    wanted: g.SamplesByChannel = {}
    values = {}
    for channel in ids:
        samples = data.draw(g.bits(layouts.layout(channel).type.dtype, len(times)))
        flags = st.lists(st.booleans(), min_size=len(times), max_size=len(times))
        valid = np.array(data.draw(flags | st.just([True] * len(times))), np.bool_)
        values[channel] = pa.array(samples, mask=~valid)
        rows = g.Rows(np.full(len(times), channel, np.uint32), times, samples, valid)
        wanted |= g.wanted(rows, layouts, 1000)
    check(list(encode.Encoder(layouts).table(times, values)), wanted, layouts)


@g.thorough
@given(rows=g.rows(np.dtype("<f8")))
def test_samples_keep_the_order_in_which_they_came(rows: g.Rows) -> None:
    """Without sorting, late samples of timestamped channels stay where they were and deltas go below zero."""
    options = encode.Options(in_time_order=False)
    bursts = list(encode.Encoder(options=options).rows(rows.channels, rows.times, masked(rows)))
    wanted: g.SamplesByChannel = {}
    for channel, time, value, valid in zip(*rows, strict=True):
        if valid:
            wanted.setdefault(int(channel), []).append((int(time), value.tobytes()))
    check(bursts, wanted, layout.Plan())


@g.thorough
@given(rows=g.rows(np.dtype("<f8"), bits_of=False), layouts=g.plans(layout.SampleType.INT16))
def test_unsorted_rows_of_all_kinds_lose_nothing(rows: g.Rows, layouts: layout.Plan) -> None:
    """Without sorting, periodic and row channels still hold every sample."""
    options = encode.Options(in_time_order=False)
    bursts = list(encode.Encoder(layouts, options).rows(rows.channels, rows.times, masked(rows)))
    found = {channel: sorted(samples) for channel, samples in g.parsed([b.data for b in bursts], layouts).items()}
    wanted = g.wanted(rows, layouts, 1000)
    assert found == {channel: sorted(samples) for channel, samples in wanted.items()}


@pytest.mark.parametrize("framing", list(codec_burst.Framing))
@pytest.mark.parametrize("level", [-64, -3, 0, 1, 12])
def test_every_framing_and_level_decodes(framing: codec_burst.Framing, level: int) -> None:
    """Compression and framing change the stored bytes and nothing else."""
    times = np.arange(5000) * 1_000_000
    values = np.sin(np.arange(5000))
    encoder = encode.Encoder(options=encode.Options(framing=framing, level=level))
    datas = [burst.data for burst in encoder.rows(np.full(5000, 3, np.uint32), times, values)]
    (found,) = decode.columns(datas, framing=framing).samples.values()
    np.testing.assert_array_equal(found.times_ns, times)
    np.testing.assert_array_equal(found.values, values)
    np.testing.assert_array_equal(found.rows(), np.full(5000, 3))
