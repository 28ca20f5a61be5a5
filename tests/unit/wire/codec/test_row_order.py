"""Rows brought together by channel: whichever way they came, as a plain stable sort does."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rta_wire.codec import row_order
from tests.unit.wire import strategies as g

ids = st.one_of(g.channel_ids, st.integers(0, 70), st.integers(65_530, 65_545), st.integers(0, 2**32 - 1))


@st.composite
def widths(draw: st.DrawFn) -> list[int]:
    """The channels of one round: ascending, turned, or in any order."""
    if draw(st.booleans()):
        first = draw(st.sampled_from([0, 7, 65_500, 2**32 - 200]))
        channels = list(range(first, first + draw(st.integers(1, 80))))
    else:
        channels = sorted(draw(st.lists(ids, min_size=1, max_size=40, unique=True)))
    turned = draw(st.integers(0, len(channels) - 1))
    channels = channels[turned:] + channels[:turned]
    return draw(st.permutations(channels)) if draw(st.booleans()) else channels


@st.composite
def in_rounds(draw: st.DrawFn) -> list[int]:
    """The same channels again and again; the last round may end early, and now and then somebody is out of line."""
    channels = draw(widths())
    if draw(st.integers(0, 3)) == 0:
        channels.insert(draw(st.integers(0, len(channels))), draw(st.sampled_from(channels)))
    rows = channels * draw(st.integers(1, 20))
    rows += channels[: draw(st.integers(0, len(channels)))]
    if draw(st.integers(0, 3)) == 0:
        rows[draw(st.integers(0, len(rows) - 1))] = draw(ids)
    return rows


rows_of_channels = st.lists(st.tuples(ids, st.integers(1, 30)), min_size=1, max_size=20)
by_channels = rows_of_channels.map(lambda counts: [channel for channel, count in counts for _ in range(count)])
in_any_order = st.lists(ids, min_size=1, max_size=200) | st.lists(st.integers(0, 3), min_size=1, max_size=200)
came = st.one_of(in_rounds(), by_channels, by_channels.map(sorted), in_any_order)


def memory_layouts(values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """The same values with other memory layouts: every third element, backwards, a column of a table."""
    spread = np.zeros(3 * len(values), values.dtype)
    spread[::3] = values
    table = np.zeros((len(values), 4), values.dtype)
    table[:, 2] = values
    return [values, spread[::3], values[::-1].copy()[::-1], table[:, 2]]


def check(channels: npt.NDArray[np.uint32]) -> row_order.ChannelGroups:
    """The groups of rows with these channels, compared with numpy's stable sort."""
    wanted = np.argsort(channels, kind="stable")
    distinct, lens = np.unique(channels, return_counts=True)
    for source in memory_layouts(channels):
        groups = row_order.by_channel(source)
        assert (groups.channels.dtype, groups.channels.tolist()) == (np.dtype(np.uint32), distinct.tolist())
        assert groups.lens.tolist() == lens.tolist()
        np.testing.assert_array_equal(groups.order.rows, wanted)
        for dtype in (np.uint8, np.int64, np.float32):
            values = np.random.default_rng(1).integers(0, 256, len(source)).astype(dtype)
            for value_source in memory_layouts(values):
                ordered = groups.order.apply(value_source)
                assert ordered.dtype == dtype
                assert ordered.flags.c_contiguous
                np.testing.assert_array_equal(ordered, values[wanted])
    return groups


@g.thorough
@given(rows=came)
@example([5])
@example([5, 5])
@example([1, 2] * 8)
@example([2, 1] * 8 + [2])
@example([0, 1, 1] * 9)
@example([65_536, 0] * 9)
@example([0, 1] * 600 + [1, 0] * 20)
@example([0] * 100 + [0, 1] * 600)
def test_the_same_as_a_stable_sort(rows: list[int]) -> None:
    """Channels, how many rows each has, where each row was, and values of any kind, wherever they stand in memory."""
    check(np.array(rows, np.uint32))


@pytest.mark.parametrize(
    ("channels", "stretches"),
    [
        ([0, 1, 2, 3], 1),
        ([70_000, 70_003, 80_000], 1),
        ([2, 3, 0, 1], 2),
        ([3, 2, 1, 0], 4),
    ],
)
@pytest.mark.parametrize("extra", [0, 1, 3])
def test_rounds_are_not_sorted(channels: list[int], stretches: int, extra: int) -> None:
    """They are taken as they stand: neighbours together, those with a row more apart from the others."""
    rows = np.array(channels * row_order.ROUNDS_MIN + channels[:extra], np.uint32)
    order = check(rows).order
    assert isinstance(order, row_order.RoundRobinOrder)
    assert stretches <= len(order.stretches) <= stretches + 1


def test_few_rounds_and_torn_ones_are_sorted() -> None:
    """Where there is too little to gain."""
    few = np.array([1, 0] * (row_order.ROUNDS_MIN - 1), np.uint32)
    torn = np.array(np.random.default_rng(2).permutation(200).tolist() * row_order.ROUNDS_MIN, np.uint32)
    for rows in (few, torn):
        assert isinstance(check(rows).order, row_order.IndexOrder)


def test_channel_by_channel_stays_as_it_came() -> None:
    """No row moves, and values that lie side by side are not even copied."""
    rows = np.repeat(np.array([1, 5, 70_000], np.uint32), 40)
    order = check(rows).order
    assert isinstance(order, row_order.IdentityOrder)
    values = np.arange(len(rows))
    assert order.apply(values) is values
