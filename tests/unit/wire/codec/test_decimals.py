"""Decimals as samples: whole numbers of 64 bits with all their digits, others as the nearest doubles."""

import decimal
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rta_wire import errors
from rta_wire.codec import columns, decode, encode, layout

Decimal = decimal.Decimal
INTEGERS = [kind for kind in layout.SampleType if kind.dtype.kind in "iu"]
SCALES = st.integers(0, 18)


def decimals(scale: int) -> st.SearchStrategy[Decimal]:
    """Decimals of a scale, many of them whole numbers near the bounds of 64 bits and of doubles."""
    edges = st.sampled_from([0, 2**7, 2**8, 2**31, 2**32, 2**53, 2**63, 2**64, 10**19])
    near = st.builds(lambda edge, step, sign: sign * (edge + step), edges, st.integers(-2, 2), st.sampled_from([-1, 1]))
    whole = near.map(Decimal)
    unscaled = st.integers(-(10**36), 10**36)
    return whole | unscaled.map(lambda number: Decimal(f"{number}e-{scale}"))


@st.composite
def decimal_columns(draw: st.DrawFn) -> tuple[pa.Array, list[Decimal | None]]:
    """A column of decimals, with nulls, that may begin within a buffer."""
    scale = draw(SCALES)
    values = draw(st.lists(st.none() | decimals(scale), min_size=1, max_size=20))
    first = draw(st.integers(0, len(values) - 1))
    width = draw(st.sampled_from([pa.decimal128(38, scale), pa.decimal256(60, scale)]))
    return pa.array(values, width).slice(first), values[first:]


def holds(kind: layout.SampleType, value: Decimal) -> bool:
    bounds = np.iinfo(kind.dtype)
    return value == value.to_integral_value() and int(bounds.min) <= value <= int(bounds.max)


@given(decimal_columns(), st.sampled_from(INTEGERS))
@example((pa.array([Decimal(2**64 - 1)]), [Decimal(2**64 - 1)]), layout.SampleType.UINT64)
@example((pa.array([Decimal(2**53 + 1)]), [Decimal(2**53 + 1)]), layout.SampleType.UINT64)
@example((pa.array([Decimal(-(2**63))]), [Decimal(-(2**63))]), layout.SampleType.INT64)
def test_a_decimal_is_the_same_integer_or_an_error_that_names_its_row(
    column: tuple[pa.Array, list[Decimal | None]], kind: layout.SampleType
) -> None:
    """A channel of integers gets every digit of a whole number in its range; all else is refused."""
    array, values = column
    source, valid = columns.column(array, "value")
    rows = np.arange(len(values)) if valid is None else np.flatnonzero(valid)
    present = [(row, value) for row, value in enumerate(values) if value is not None]
    wrong = [row for row, value in present if not holds(kind, value)]
    if wrong:
        with pytest.raises(errors.BadSamples, match=f"row {wrong[0]}: .* can't be a sample of type {kind.value}"):
            columns.cast_samples(source[rows], kind, rows)
        return
    samples = columns.cast_samples(source[rows], kind, rows)
    assert samples.dtype == kind.dtype
    assert samples.tolist() == [int(value) for _, value in present]


@given(decimal_columns())
@example((pa.array([Decimal("13.35")]), [Decimal("13.35")]))
def test_a_decimal_is_the_nearest_double(column: tuple[pa.Array, list[Decimal | None]]) -> None:
    """A channel of doubles gets what Python's own parser makes of the same digits, to the last bit."""
    array, values = column
    source, valid = columns.column(array, "value")
    samples = columns.cast_samples(source, layout.SampleType.DOUBLE).tolist()
    is_present = [True] * len(values) if valid is None else valid.tolist()
    assert is_present == [value is not None for value in values]
    for sample, value in zip(samples, values, strict=True):
        if value is not None:
            assert struct.pack("<d", sample) == struct.pack("<d", float(value) + 0.0)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("0.5", "a decimal with a fraction, about 0.5, can't be a sample of type uint64"),
        ("9007199254740993.5", "a decimal with a fraction, about 9007199254740994.0, can't be a sample of type uint64"),
        ("18446744073709551616", "a decimal beyond 64 bits, about 1.8446744073709552e+19, can't be a sample of"),
        ("-9007199254740993", "-9007199254740993 can't be a sample of type uint64"),
    ],
)
def test_what_is_wrong_with_a_decimal_is_said(value: str, reason: str) -> None:
    """An error shows the digits, or says why the number is no integer."""
    source, _ = columns.column(pa.array([Decimal(value)]), "value")
    with pytest.raises(errors.BadSamples) as caught:
        columns.cast_samples(source, layout.SampleType.UINT64)
    assert reason in str(caught.value)


@pytest.mark.parametrize("decimal_type", [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(9, -2)])
def test_short_decimals_and_those_of_tens_are_numbers_too(decimal_type: pa.DataType) -> None:
    """Arrow has decimals of 32 and 64 bits, and such that count in hundreds."""
    source, _ = columns.column(pa.array([Decimal(1200), Decimal(-700)]).cast(decimal_type), "value")
    assert columns.cast_samples(source, layout.SampleType.INT16).tolist() == [1200, -700]
    assert columns.cast_samples(source, layout.SampleType.DOUBLE).tolist() == [1200.0, -700.0]


def test_long_and_wide_frames_of_decimals_arrive_with_all_digits() -> None:
    """Channels of several types take their samples from one column of decimals, in any order of rows."""
    plan = layout.Plan([(1, layout.Layout(type=layout.SampleType.UINT64)), (2, layout.Layout())])
    large, fraction = [2**64 - 1, 2**53 + 1, 0], [0.1, 2.675, -1.005]
    mixed = [Decimal(value) for value in (large[0], "0.1", large[1], "2.675", "-1.005", large[2])]
    channels, times = np.array([1, 2, 1, 2, 2, 1]), np.array([1, 1, 2, 2, 3, 3])
    bursts = list(encode.Encoder(plan).rows(channels, times, pa.array(mixed, pa.decimal128(38, 9))))
    wide_columns = {1: pa.array([Decimal(value) for value in large]), 2: pa.array([Decimal(str(v)) for v in fraction])}
    for made in (bursts, list(encode.Encoder(plan).table(np.array([1, 2, 3]), wide_columns))):
        decoded = decode.columns([part.data for part in made], plan)
        assert decoded.samples[layout.SampleType.UINT64].values.tolist() == large
        assert decoded.samples[layout.SampleType.DOUBLE].values.tolist() == fraction
