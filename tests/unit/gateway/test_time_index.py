"""Steps in which a session is read: every window once, with all blocks that have samples of it."""

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rta_supervisor.gateway.rest.data import time_index
from rta_supervisor.gateway.rest.data.time_index import Block, TimeSpan
from rta_wire.chunks import channel_expression, windows

S = 10**9
spans = st.tuples(st.integers(0, 500), st.integers(0, 200), st.integers(1, 3_000_000))


@given(st.lists(spans, max_size=12), st.integers(0, 600), st.integers(0, 300))
def test_steps_cover_what_was_asked_for(raw: list[tuple[int, int, int]], start_s: int, length_s: int) -> None:
    """Steps are whole windows that don't overlap, and together have every window with samples, with all its blocks."""
    blocks = [
        Block(
            after="0-0",
            until="1-0",
            samples=count,
            sample_span=TimeSpan(first * S, (first + length) * S),
            channels=None,
        )
        for first, length, count in raw
    ]
    start_ns, end_ns = start_s * S, (start_s + length_s) * S
    steps = list(time_index.plan_samples(blocks, start_ns, end_ns, channel_expression.EVERYTHING))
    bounds = [(step.start_ns, step.end_ns) for step in steps]
    assert bounds == sorted(bounds)
    assert all(first[1] < second[0] for first, second in itertools.pairwise(bounds))
    by_window = {
        window: step
        for step in steps
        for window in range(windows.window_of(step.start_ns), windows.window_of(step.end_ns) + 1)
    }
    for window in range(windows.window_of(start_ns), windows.window_of(end_ns) + 1):
        low, high = windows.bounds_ns(window, window)
        needed = {
            index for index, block in enumerate(blocks) if block.sample_span and block.sample_span.overlaps(low, high)
        }
        if needed:
            assert needed <= set(by_window[window].blocks)
    assert all(step.start_ns >= windows.bounds_ns(windows.window_of(start_ns), 0)[0] for step in steps)


def test_many_ranges_and_many_channels_are_compared_once() -> None:
    """Each range with each channel of each block was minutes, in which nobody is served."""
    channels = frozenset(range(0, 10_000, 2))
    span = TimeSpan(0, S)
    blocks = [Block(after="0-0", until="1-0", samples=1, sample_span=span, channels=channels) for _ in range(2000)]
    blocks += [replace(blocks[0], channels=None, channel_range=(n, n)) for n in range(0, 4000, 2)]
    others = channel_expression.ChannelSelection.of(range(1, 7000, 2))
    began_s = time.process_time()
    assert list(time_index.plan_samples(blocks, 0, S, others)) == []
    assert time.process_time() - began_s < 1
    assert list(time_index.plan_samples(blocks, 0, S, channel_expression.ChannelSelection.of([8])))
