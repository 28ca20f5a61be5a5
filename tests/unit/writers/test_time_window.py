"""What a task of a read in wide form keeps, against a plain list of all samples."""

import bisect

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rta_writers.read.time_window import TimeWindow, WindowSamples

TIMES = st.integers(0, 20)
LIMITS = st.none() | TIMES
CHUNKS = st.lists(st.tuples(st.sampled_from([1, 2]), st.lists(TIMES, max_size=6)), max_size=8)


@given(CHUNKS, LIMITS, LIMITS, LIMITS, LIMITS, st.booleans())
def test_a_window_has_what_its_rows_show(
    chunks: list[tuple[int, list[int]]],
    start_ns: int | None,
    end_ns: int | None,
    filter_start_ns: int | None,
    filter_last_ns: int | None,
    keeps_last: bool,
) -> None:
    """In any order of times: each sample in the window, the one that was written last, and on a grid that before it."""
    window = TimeWindow(start_ns, end_ns).within(filter_start_ns, filter_last_ns)
    samples = WindowSamples([1, 2], window, keeps_last=keeps_last)
    written: dict[int, dict[int, int]] = {1: {}, 2: {}}
    value = 0
    for channel_id, times in chunks:
        values = list(range(value, value + len(times)))
        value += len(times)
        written[channel_id].update(zip(times, values, strict=True))
        samples.add(channel_id, np.array(times, np.int64), np.array(values, np.int64))
    rows = [
        time
        for time in range(25)
        if (start_ns is None or time >= start_ns)
        and (end_ns is None or time < end_ns)
        and (filter_start_ns is None or time >= filter_start_ns)
        and (filter_last_ns is None or time <= filter_last_ns)
    ]
    kept = samples.in_order()
    for channel_id, by_time in written.items():
        times, values = (column.tolist() for column in kept.get(channel_id, (np.array([]), np.array([]))))
        assert times == sorted(set(times))
        if not keeps_last:
            assert dict(zip(times, values, strict=True)) == {time: by_time[time] for time in rows if time in by_time}
            continue
        assert len([time for time in times if time not in rows]) <= 1
        earlier = sorted(by_time)
        for row in rows:
            place = bisect.bisect_right(times, row)
            expected = bisect.bisect_right(earlier, row)
            assert (values[place - 1] if place else None) == (by_time[earlier[expected - 1]] if expected else None)
    all_times = [time for _, times in chunks for time in times]
    assert (samples.first_ns, samples.last_ns) == ((min(all_times), max(all_times)) if all_times else (None, None))
