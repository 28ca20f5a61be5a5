"""Columns of numbers: made without Arrow's own conversion, which imports pandas, and equal to what it makes."""

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors
from rta_writers.write import input_columns

integers = st.integers(-(2**63), 2**63 - 1)
numbers = st.one_of(
    st.floats(allow_nan=False),
    st.floats(allow_nan=False).map(np.float64),
    integers,
    st.integers(-(2**53) - 2, 2**53 + 2),
    integers.map(np.int64),
)
others = st.one_of(st.integers(2**63, 2**65), st.none(), st.booleans(), st.floats(width=32).map(np.float32))


def of_arrow(source: list[Any]) -> pa.Array | None:
    try:
        return pa.array(source)
    except input_columns.CONVERSION_ERRORS:
        return None


@given(
    st.one_of(
        st.lists(numbers),
        st.lists(integers),
        st.lists(st.one_of(st.none(), numbers)),
        st.lists(st.one_of(st.none(), integers)),
        st.lists(st.one_of(numbers, others)),
    )
)
def test_a_column_of_numbers_is_the_one_that_arrow_makes(source: list[Any]) -> None:
    """Of numbers of Python and numpy, alike or not, with and without others: what Arrow refuses is refused."""
    expected = of_arrow(source)
    if expected is None:
        with pytest.raises(errors.BadSamples, match="the value column"):
            input_columns.column("value", source)
    else:
        made = input_columns.column("value", source)
        assert made.type == expected.type
        assert repr(made.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)
def test_numbers_of_numpy_keep_their_type(dtype: str) -> None:
    """A list of an array's elements is the column that the array is."""
    elements = list(np.arange(3).astype(dtype))
    assert input_columns.column("value", elements).equals(pa.array(elements))


FIRST_COLUMNS = """
import sys
import numpy as np
import pyarrow as pa
from rta_wire.codec import columns
from rta_writers.write import input_columns

numbers = ([1, 2], [0.5], [1, 0.5], [1, None], [None, 0.5, 1], [None])
for source in (*numbers, list(np.arange(3)), list(np.arange(3) / 2), list(np.ones(3, "f4")), np.ones(3)):
    doubles = input_columns.with_type(input_columns.column("value", source), pa.float64())
    columns.column(doubles, "value")
sys.exit(bool({"pandas", "numpy.ma"} & sys.modules.keys()))
"""


def test_neither_pandas_nor_masked_arrays_are_imported_for_numbers() -> None:
    """They take 0.2 s and 0.04 s, which the first call of a recorder would wait for."""
    assert subprocess.run([sys.executable, "-c", FIRST_COLUMNS], timeout=20, check=False).returncode == 0
