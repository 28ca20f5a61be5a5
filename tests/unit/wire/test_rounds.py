"""Rows that come in rounds take a shorter way, and nothing of that shows in what goes out."""

from unittest import mock

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import encode, limits, orders, plan

Frame = tuple[npt.NDArray[np.unsignedinteger], npt.NDArray[np.signedinteger], npt.NDArray[np.floating]]

FLOAT = plan.Layout(type=plan.SampleType.FLOAT)
PLANS = (
    plan.Plan(),
    plan.Plan([(3, FLOAT), (65_533, FLOAT)]),
    plan.Plan(default=plan.Layout(kind=plan.Kind.PERIODIC)),
    plan.Plan(default=plan.Layout(kind=plan.Kind.ROW)),
)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Rounds of some channels, cut anywhere, each one moment or not; now and then with a row that does not fit."""
    width, rows = draw(st.integers(1, 12)), draw(st.integers(1, 200))
    ids = draw(
        st.permutations(draw(st.sampled_from(([*range(12)], [*range(65_530, 65_542)], [1, *[2] * 3, *range(3, 11)]))))
    )[:width]
    skipped = draw(st.integers(0, 20))
    at = np.arange(skipped, skipped + rows)
    channels = np.array(ids, np.uint32)[at % width]
    shift = draw(st.integers(0, width))
    times = 1_700_000_000_000_000_000 + (at + shift) // width * draw(st.sampled_from((0, 1, 10_000_000, -5)))
    if draw(st.booleans()):
        times = times + at % width * draw(st.sampled_from((1, 1000)))
    if draw(st.booleans()):
        spot = draw(st.integers(0, rows - 1))
        channels[spot] = draw(st.sampled_from(ids))
        times[spot] += draw(st.integers(-2, 2))
    return channels, times, at * 0.25


@given(frame=frames(), layouts=st.sampled_from(PLANS), in_time_order=st.booleans(), most=st.sampled_from((3, 1000)))
def test_the_way_does_not_show(frame: Frame, layouts: plan.Plan, in_time_order: bool, most: int) -> None:
    """Bit by bit what sorting gives, also where runs are cut because they are long."""
    options = encode.Options(in_time_order=in_time_order)
    encoder = encode.Encoder(layouts, options)
    with mock.patch.object(limits, "ENCODE_RUN_SAMPLES", most):
        found = list(encoder.rows(*frame))
        with mock.patch.object(orders, "by_channel", sorted_by_channel):
            assert list(encoder.rows(*frame)) == found


def sorted_by_channel(channels: orders.U32) -> orders.Grouped:
    rows = np.argsort(channels, kind="stable")
    found, lens = np.unique(channels, return_counts=True)
    return orders.Grouped(orders.Listed(rows), found, lens)
