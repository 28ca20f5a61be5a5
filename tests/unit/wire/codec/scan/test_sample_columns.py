"""Columns of samples by channel, against a loop over samples."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rta_wire.codec.scan.sample_columns import SampleColumns

runs = st.lists(st.tuples(st.integers(0, 5), st.lists(st.tuples(st.integers(0, 9), st.integers()), max_size=4)))


@given(runs.map(lambda found: [(channel, [(t, v % 100) for t, v in samples]) for channel, samples in found]))
def test_samples_of_a_channel_stay_in_their_order(runs: list[tuple[int, list[tuple[int, int]]]]) -> None:
    expected: dict[int, list[tuple[int, int]]] = {}
    for channel, samples in runs:
        expected.setdefault(channel, []).extend(samples)
    columns = SampleColumns(
        np.array([channel for channel, _ in runs], np.uint32),
        np.cumsum([0] + [len(samples) for _, samples in runs]),
        np.array([time for _, samples in runs for time, _ in samples], np.int64),
        np.array([value for _, samples in runs for _, value in samples], np.int16),
    )
    grouped = columns.grouped()
    assert grouped.channels.tolist() == sorted(expected)
    assert (grouped.channels.dtype, grouped.values.dtype) == (np.dtype(np.uint32), np.dtype(np.int16))
    found = {
        channel: list(zip(times.tolist(), values.tolist(), strict=True))
        for channel, (times, values) in columns.by_channel().items()
    }
    assert found == expected
