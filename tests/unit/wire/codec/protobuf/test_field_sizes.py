"""Sizes of fields, measured on what protobuf writes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import limits
from rta_wire.codec.protobuf import field_sizes
from rta_wire.pb import scan_pb2

CHANNELS = st.integers(0, limits.CHANNEL_ID_MAX)
TIMES = st.one_of(st.integers(limits.TIME_NS_MIN, limits.TIME_NS_MAX), st.just(0))


@given(st.lists(CHANNELS))
def test_varints(values: list[int]) -> None:
    """A varint takes as many bytes as it needs, zero none."""
    sizes = [scan_pb2.Timestamped(channel_id=value).ByteSize() for value in values]
    assert field_sizes.varints(values).tolist() == sizes


@given(st.lists(TIMES))
def test_fixed_numbers(values: list[int]) -> None:
    """A number of 64 bits takes nine bytes with its tag, zero none."""
    sizes = [scan_pb2.Timestamped(start_timestamp=value).ByteSize() for value in values]
    assert field_sizes.fixed64s(values).tolist() == sizes


@given(st.lists(st.integers(0, 70_000)))
def test_bytes(lengths: list[int]) -> None:
    """Bytes take their length and themselves, none where there are none."""
    sizes = [scan_pb2.Timestamped(buffer=bytes(length)).ByteSize() for length in lengths]
    assert field_sizes.byte_strings(np.array(lengths, np.int64)).tolist() == sizes
