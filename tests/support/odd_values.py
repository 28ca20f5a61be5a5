"""Values that nobody should pass to a call, and some that only look like that."""

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2


class Unprintable:
    """An object whose `repr` fails."""

    def __repr__(self) -> str:
        raise RuntimeError("not for printing")


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def _nested(levels: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


ODD_VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    2**64,
    10**5000,
    0.5,
    float("nan"),
    float("inf"),
    -float("inf"),
    1e300,
    1j,
    "",
    "run",
    "\ud800",
    "\x00",
    "{}",
    "a" * 100_000,
    "9" * 5000,
    b"run",
    bytearray(b"x"),
    {1, 2},
    frozenset(),
    [],
    [None],
    [1, "a"],
    [2**63],
    [object()],
    (1.5,),
    {},
    {1: 2},
    {None: None},
    {"a": float("nan")},
    {"a": b"b"},
    {"a": {"b": {3}}},
    {"a": np.int64(5)},
    {"\udcff": "\udcff"},
    _cycle(),
    _nested(40),
    _nested(100_000),
    range(3),
    dt.datetime(2026, 1, 1),  # noqa: DTZ001 - one without a zone is odd
    dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-5))),
    dt.timedelta(1),
    decimal.Decimal("NaN"),
    np.int64(5),
    np.float32("nan"),
    np.longdouble(1.5),
    np.bool_(True),
    np.datetime64("NaT"),
    np.datetime64("2026-01-01T00:00:00", "ns"),
    np.array(5),
    np.array([1, 2]),
    np.array([[1]]),
    np.array([1, "a"], object),
    np.array([2**63], np.uint64),
    np.array(["NaT"], "M8[ns]"),
    np.array([1 + 2j]),
    np.ma.masked_array([1], [True]),
    pa.array([1]),
    pa.array([None]),
    pa.array([[1]]),
    pa.chunked_array([[1], [2]]),
    pa.scalar(1),
    pa.record_batch({"channel": [1], "time": [None], "value": [1.0]}),
    pa.record_batch({"a": [1]}),
    pa.table({}),
    pa.table({"channel": ["x"], "time": [1], "value": [1.0]}),
    Totals(samples=-1),
    Totals(bursts=2**64),
    Totals(samples="many"),  # type: ignore[arg-type]
    Totals(start_ns=2**63, end_ns=0),
    control_pb2.Totals(),
    control_pb2.OpenSession(),
    control_pb2.Progress(identity="run"),
    object(),
    Unprintable(),
    int,
    len,
    ValueError("x"),
]


def any_value() -> st.SearchStrategy[Any]:
    """Random numbers, texts and times, and containers of them."""
    scalars = st.one_of(
        st.none(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=5), st.datetimes()
    )
    return st.recursive(
        scalars, lambda item: st.lists(item, max_size=3) | st.dictionaries(scalars, item, max_size=3), max_leaves=6
    )
