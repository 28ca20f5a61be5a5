"""For the encoder: bytes of arrays as memory views, whole or in parts, without copying."""

from typing import cast

import numpy as np

from rta_wire.arrays import I64, U8


def of_array(data: U8) -> memoryview:
    """The bytes of an array. Type checkers know arrays as buffers from Python 3.12 on only, hence the cast."""
    return memoryview(cast("bytes", data))


def split(data: U8, sizes: I64) -> list[memoryview]:
    """Parts of an array that follow each other without gaps, one for each size."""
    whole = of_array(data)
    stops = np.cumsum(sizes).tolist()
    return [whole[first:last] for first, last in zip([0, *stops], stops, strict=False)]


def slices(data: memoryview, starts: I64, sizes: I64) -> list[memoryview]:
    """Parts of `data` that begin at `starts`, one for each size."""
    return [data[first:last] for first, last in zip(starts.tolist(), (starts + sizes).tolist(), strict=True)]
