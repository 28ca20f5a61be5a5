"""Rows that come in rounds take a shorter way, and nothing of that shows in what goes out."""

import random

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from rta_wire.codec import encode, layout

Frame = tuple[npt.NDArray[np.unsignedinteger], npt.NDArray[np.signedinteger], npt.NDArray[np.floating]]

FLOAT = layout.Layout(type=layout.SampleType.FLOAT)
PLANS = (
    layout.Plan(),
    layout.Plan([(3, FLOAT), (65_533, FLOAT)]),
    layout.Plan(default=layout.Layout(kind=layout.Kind.PERIODIC)),
    layout.Plan(default=layout.Layout(kind=layout.Kind.ROW)),
)
FAR_NS = 2**62 + 2**61
"""Half of a step that fits no delta: runs are cut there."""


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
    moments = (at + draw(st.integers(0, width))) // width
    times = moments * draw(st.sampled_from((0, 1, 10_000_000, -5)))
    if draw(st.booleans()):
        times = times + np.where(moments > np.median(moments), FAR_NS, -FAR_NS)
    if draw(st.booleans()):
        times = times + at % width * draw(st.sampled_from((1, 1000)))
    if draw(st.booleans()):
        spot = draw(st.integers(0, rows - 1))
        channels[spot] = draw(st.sampled_from(ids))
        times[spot] += draw(st.integers(-2, 2))
    return channels, times, at * 0.25


@given(
    frame=frames(), layouts=st.sampled_from(PLANS), in_time_order=st.booleans(), order=st.randoms(use_true_random=False)
)
def test_the_way_does_not_show(frame: Frame, layouts: layout.Plan, in_time_order: bool, order: random.Random) -> None:
    """Bit by bit what the same rows give that came channel by channel, or mixed, each channel in its order."""
    encoder = encode.Encoder(layouts, encode.Options(in_time_order=in_time_order))
    found = list(encoder.rows(*frame))
    by_channel = np.argsort(frame[0], kind="stable")
    assert list(encoder.rows(*(column[by_channel] for column in frame))) == found
    mixed = frame[0][by_channel].tolist()
    order.shuffle(mixed)
    rows = by_channel[np.argsort(np.argsort(mixed, kind="stable"), kind="stable")]
    assert list(encoder.rows(*(column[rows] for column in frame))) == found
