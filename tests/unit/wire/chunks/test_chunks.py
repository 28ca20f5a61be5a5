"""Chunks against a reader that shares no code, channel expressions and envelopes against plain models."""

import contextlib
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors
from rta_wire.chunks import channel_expression, envelope_cells, row_chunks, sample_chunks, windows
from rta_wire.chunks.envelope import SampleEnvelope, step_of
from rta_wire.chunks.transfer import Chunk, ChunkPacker
from rta_wire.codec.scan.sample_columns import SampleColumns
from rta_wire.pb import data_pb2
from tests.support import chunk_reader

S = 10**9
times = st.one_of(st.integers(-30 * S, 30 * S), st.integers(0, 5).map(lambda n: n * 10 * S), st.just(0))
samples = st.lists(st.tuples(times, st.floats(-10, 10, width=32)), max_size=400)


def columns(rows: list[tuple[int, float]]) -> tuple[Any, Any]:
    """Sorted samples of one channel."""
    times_ns, values = (np.array(column) for column in zip(*rows, strict=True))
    return windows.in_time_order(times_ns.astype(np.int64), values.astype(np.float64))


def packed(chunks: list[Chunk]) -> bytes:
    packer = ChunkPacker()
    return b"".join(map(packer.pack, chunks))


@pytest.mark.parametrize("kind", [chunk_reader.TIMESTAMPED, chunk_reader.PERIODIC])
@given(rows=samples.filter(bool), channel=st.integers(0, 2**32 - 1))
def test_chunks_are_read_back(kind: str, rows: list[tuple[int, float]], channel: int) -> None:
    """Every sample once, in chunks that keep the rules, whatever the times are."""
    if kind == chunk_reader.PERIODIC:
        chunks = list(sample_chunks.periodic(channel, *columns(rows), 0))
    else:
        chunks = list(sample_chunks.timestamped(channel, *columns(rows)))
    found = chunk_reader.checked_samples(packed(chunks), kind)
    assert sorted(found) == sorted((channel, time_ns, value) for time_ns, value in rows)


@given(st.dictionaries(st.integers(0, 300), samples, max_size=4))
def test_rows_are_read_back(by_channel: dict[int, list[tuple[int, float]]]) -> None:
    """Samples of one time are in a row together, and each is in one row."""
    parts = [row_chunks.SortedSamples(channel, *columns(rows)) for channel, rows in by_channel.items() if rows]
    items = [
        chunk_reader.item_samples(chunk_reader.ROW, item, {})
        for chunk in chunk_reader.chunks(packed(list(row_chunks.rows(parts))))
        for item in chunk.items
    ]
    found = sorted(sample for item in items for sample in item)
    assert found == sorted((channel, *sample) for channel, rows in by_channel.items() for sample in rows)
    assert all(len({channel for channel, _, _ in item}) == len(item) for item in items)


@given(samples.filter(bool), st.randoms())
def test_bounds_depend_on_the_samples_alone(rows: list[tuple[int, float]], random: Any) -> None:
    """In whatever order samples come, the chunks are the same bytes."""
    shuffled = rows[:]
    random.shuffle(shuffled)
    first, second = (packed(list(sample_chunks.timestamped(1, *columns(each)))) for each in (rows, shuffled))
    assert first == second


@given(samples, st.integers(1, 50))
def test_cuts_cover_everything_and_keep_one_window(rows: list[tuple[int, float]], most: int) -> None:
    """Parts follow each other, are in one window each, and share no time with the next one."""
    ordered = np.sort(np.array([time_ns for time_ns, _ in rows], np.int64))
    cuts = windows.cut(ordered, most)
    assert (cuts[0], cuts[-1]) == (0, len(ordered))
    for first, last in itertools.pairwise(cuts):
        part = ordered[first:last]
        assert len(part)
        assert len(set((part // windows.WINDOW_NS).tolist())) == 1
        assert last == len(ordered) or ordered[last] > part[-1]
        assert len(part) <= most or part[most - 1] == part[-1]


@pytest.mark.parametrize("kind", [chunk_reader.TIMESTAMPED, chunk_reader.PERIODIC, chunk_reader.ROW])
def test_samples_of_one_time_keep_to_the_size_of_a_list(kind: str) -> None:
    """However many there are, a list is no larger than readers take, and nothing is lost at a cut."""
    times_ns, values = np.full(140_000, 5, np.int64), np.arange(140_000.0)
    found: Any
    if kind == chunk_reader.ROW:
        channels = [row_chunks.SortedSamples(channel, times_ns[:100], values[:100]) for channel in range(6000)]
        chunks = list(row_chunks.rows(channels))
        found = [data_pb2.RowDataList.FromString(chunk.payload).row_data for chunk in chunks]
        assert b"".join(row.buffer[:8] for rows in found for row in rows) == values[:100].tobytes()
    elif kind == chunk_reader.PERIODIC:
        chunks = list(sample_chunks.periodic(2**32 - 1, times_ns, values, 2**62))
        found = [data_pb2.PeriodicDataList.FromString(chunk.payload).periodic_data for chunk in chunks]
        assert b"".join(item.buffer for items in found for item in items) == values.tobytes()
    else:
        chunks = list(sample_chunks.timestamped(2**32 - 1, times_ns, values))
        found = [data_pb2.TimestampedDataList.FromString(chunk.payload).timestamped_data for chunk in chunks]
        assert b"".join(item.buffer for items in found for item in items) == values.tobytes()
    assert len(chunks) == 2
    assert max(len(chunk.payload) for chunk in chunks) <= 3 << 20


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=5), st.integers(0, 50))
def test_an_expression_selects_what_it_says(bounds: list[tuple[int, int]], channel: int) -> None:
    """Ids, ranges and open ends, in any order and overlapping."""
    texts = []
    expected = False
    for low, high in bounds:
        if low == high:
            texts.append(f"{low:x}")
            expected |= channel == low
        elif low > high:
            texts.append(f"{low:X}-")
            expected |= channel >= low
        else:
            texts.append(f"{low:x}-{high:X}")
            expected |= low <= channel <= high
    selection = channel_expression.parse(",".join(texts))
    assert selection.has(channel) == expected
    assert selection.mask(np.array([channel], np.uint32)).tolist() == [expected]


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)), st.integers(0, 30), st.integers(0, 10))
def test_selections_are_sets_of_channels(chosen: set[int], others: set[int], first: int, length: int) -> None:
    """What is taken out of one, and whether it touches a range."""
    selection = channel_expression.ChannelSelection.of(chosen)
    assert selection.overlaps(first, first + length) == any(first <= channel <= first + length for channel in chosen)
    left = selection.without(sorted(others))
    assert {channel for channel in range(32) if left.has(channel)} == chosen - others
    assert channel_expression.EVERYTHING.without(sorted(others)).has(31)


def test_expressions_of_the_specification() -> None:
    """The example of the specification, all channels, and mistakes."""
    selection = channel_expression.parse("-5,7,B-D,14-")
    assert selection.ranges == ((0, 5), (7, 7), (11, 13), (20, 2**32 - 1))
    assert channel_expression.parse("-").is_everything
    for text in ("", ",", "5,", "x", "5-3", "123456789", "1--2", "0x1"):
        with pytest.raises(errors.BadQuery):
            channel_expression.parse(text)


@given(st.text(max_size=20))
def test_any_text_is_an_expression_or_a_named_mistake(text: str) -> None:
    """No text makes the parser fail in another way."""
    with contextlib.suppress(errors.BadQuery):
        channel_expression.parse(text)


@given(samples.filter(bool), st.integers(1, 40), st.integers(1, 5), st.sets(st.integers(0, 4)))
def test_an_envelope_is_that_of_each_step(
    rows: list[tuple[int, float]], steps: int, parts: int, summed: set[int]
) -> None:
    """However samples are divided, and summed up where steps allow that, each step has the extremes, the mean and the
    number of its samples."""
    all_times = [time_ns for time_ns, _ in rows]
    low, high = min(all_times), max(all_times)
    envelope = SampleEnvelope(low, high, step_of(low, high, steps))
    taken = []
    for part in range(parts):
        if own := rows[part::parts]:
            times_ns, values = (np.array(column) for column in zip(*own, strict=True))
            cells = envelope_cells.summarize([_one_channel(times_ns, values)])
            assert cells is not None
            if part in summed and envelope.takes(cells.level, int(times_ns.min()), int(times_ns.max())):
                taken.append(cells)
            else:
                envelope.add(1, times_ns, values)
    envelope.add_cells(taken, channel_expression.EVERYTHING)
    [found] = envelope.channels()
    expected: dict[int, list[float]] = {}
    for time_ns, value in rows:
        expected.setdefault(time_ns // envelope.step_ns * envelope.step_ns, []).append(value)
    assert found.times_ns.tolist() == sorted(expected)
    for index, time_ns in enumerate(sorted(expected)):
        step_values = expected[time_ns]
        bounds = found.low[index], found.high[index], found.samples[index]
        assert bounds == (min(step_values), max(step_values), len(step_values))
        assert found.mean[index] == pytest.approx(sum(step_values) / len(step_values), abs=1e-9)
    assert len(found.times_ns) <= steps + 1


def _one_channel(times_ns: Any, values: Any) -> SampleColumns:
    return SampleColumns(np.array([1], np.uint32), np.array([0, len(times_ns)]), times_ns, values)


@given(st.integers(0, 2**62), st.integers(0, 2**61), st.integers(1, 20_000))
def test_steps_are_about_as_many_as_asked_for(start_ns: int, length_ns: int, steps: int) -> None:
    """At most a quarter longer than they need to be; a power of two stays as it is, so that neighbours fit together."""
    step_ns = step_of(start_ns, start_ns + length_ns, steps)
    exact_ns = max(1, -(-(length_ns + 1) // steps))
    assert exact_ns <= step_ns <= exact_ns * 5 / 4
    assert step_of(0, (1 << 40) * steps - 1, steps) == 1 << 40


@given(st.lists(st.lists(st.tuples(times, st.floats(allow_nan=True, width=32)), max_size=40), max_size=5))
def test_cells_that_are_joined_stand_for_all_samples(blocks: list[list[tuple[int, float]]]) -> None:
    """Joined cells have the extremes, the sum and the number of all finite samples."""
    columns_of = [_one_channel(*(np.array(column) for column in zip(*rows, strict=True))) for rows in blocks if rows]
    parts = [cells for part in columns_of if (cells := envelope_cells.summarize([part])) is not None]
    joined = envelope_cells.join(parts)
    finite = [value for rows in blocks for _, value in rows if np.isfinite(value)]
    if joined is None:
        assert not finite
        return
    assert (joined.low.min(), joined.high.max(), joined.samples.sum()) == (min(finite), max(finite), len(finite))
    assert len(joined.numbers) == len(set(joined.numbers.tolist()))


def test_cells_at_the_edge_of_a_range_are_not_taken() -> None:
    """Those with samples outside, and those that are no whole part of a step, have to be read."""
    envelope = SampleEnvelope(1000, 1999, 64)
    assert envelope.takes(6, 1000, 1999)
    assert not any((envelope.takes(6, 999, 1999), envelope.takes(6, 1000, 2000), envelope.takes(7, 1000, 1999)))
