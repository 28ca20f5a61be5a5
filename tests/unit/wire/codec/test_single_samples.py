"""Ticks of a recorder: the short way through the encoder makes the same bytes as the long one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire.codec import decode, encode, single_samples
from tests.unit.wire import strategies as g

doubles = st.one_of(
    st.floats(), st.integers(0, 2**64 - 1).map(lambda bits: np.array([bits], np.uint64).view("f8").item())
)
ids = st.one_of(g.channel_ids, st.integers(0, 2**32 - 1))
rows = st.lists(st.tuples(ids, g.times, doubles), min_size=1, max_size=60)
options = st.builds(
    encode.Options,
    target_bytes=st.sampled_from([100, 1000, 65_536]),
    framing=st.sampled_from(list(encode.Framing)),
    level=st.sampled_from([-1, 0, 9]),
)


def encoded(columns: tuple[np.ndarray, ...], with_options: encode.Options) -> list[encode.Burst]:
    return list(encode.Encoder(options=with_options).rows(*columns))


@g.thorough
@given(rows=rows, options=options, is_tick=st.booleans())
def test_the_short_way_makes_the_same_bytes(
    rows: list[tuple[int, int, float]], options: encode.Options, is_tick: bool
) -> None:
    """For rows in any order, of any time and any bits, with and without several rows of a channel."""
    if is_tick:
        rows = list({channel: (channel, time, value) for channel, time, value in rows}.values())
    channels, times, values = zip(*rows, strict=True)
    columns = (np.array(channels, np.uint32), np.array(times, np.int64), np.array(values))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single_samples, "ROWS_MAX", 0)
        reference = encoded(columns, options)
    assert encoded(columns, options) == reference


def test_a_tick_takes_the_short_way_and_can_be_read() -> None:
    """50 channels at one time are one burst, and what it holds is what was written."""
    channels = np.arange(50, dtype=np.uint32)[::-1].copy()
    times = np.full(50, g.BASE_NS)
    burst = single_samples.encode(channels, times, channels / 4, encode.DEFAULTS)
    assert burst is not None
    assert (burst.samples, burst.start_ns, burst.end_ns) == (50, g.BASE_NS, g.BASE_NS)
    (decoded,) = decode.columns([burst.data]).samples.values()
    assert decoded.rows().tolist() == list(range(50))
    assert decoded.values.tolist() == [channel / 4 for channel in range(50)]
