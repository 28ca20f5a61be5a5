"""Packed varints against a version that does one number at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire.codec.protobuf import proto_fields, varint
from rta_wire.pb import data_pb2
from tests.unit.wire import strategies as g

numbers = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 300),
    st.integers(1, 63).flatmap(lambda k: st.sampled_from([2**k - 1, 2**k])),
)


@g.thorough
@given(values=st.lists(numbers, max_size=50))
def test_many_at_once_is_the_same_as_one_by_one(values: list[int]) -> None:
    """Encoding gives what protobuf and the plain loop give, and decoding gives the values back with their ends."""
    array = np.array(values, np.uint64)
    made = varint.encode(array, varint.widths(array)).tobytes()
    parts = [proto_fields.cached_varint_field(0, value)[1:] for value in values]
    assert made == b"".join(parts)
    signed = array.view(np.int64).tolist()
    assert chunked(data_pb2.TimestampedData(timestamp_deltas=signed).SerializeToString(), len(made)) == made
    found = varint.decode(np.frombuffer(made, np.uint8))
    assert found is not None
    assert found[0].tolist() == values
    assert found[1].tolist() == np.cumsum([len(part) for part in parts]).tolist()


def chunked(message: bytes, size: int) -> bytes:
    """The packed part at the end of a message with one field."""
    return message[len(message) - size :] if size else b""


def test_large_inputs_go_through_in_parts() -> None:
    """Nothing is lost where one part ends and the next begins."""
    array = (
        np.random.default_rng(5).integers(0, 2**63, 50_000).astype(np.uint64) >> np.arange(50_000, dtype=np.uint64) % 64
    )
    found = varint.decode(varint.encode(array, varint.widths(array)))
    assert found is not None
    np.testing.assert_array_equal(found[0], array)


@pytest.mark.parametrize(
    "data", [b"\x80", b"\x01\x80", b"\xff" * 10 + b"\x01", b"\x80" * 11 + b"\x00", b"\xff" * 9 + b"\x02"]
)
def test_what_is_no_number_of_64_bits_is_not_decoded(data: bytes) -> None:
    """Numbers that are cut, too long or too large are nobody's business here."""
    assert varint.decode(np.frombuffer(data, np.uint8)) is None
