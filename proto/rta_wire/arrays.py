"""Names of the numpy array types in signatures of the codec, of digests and of the writers."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Unsigned = npt.NDArray[np.unsignedinteger]
"""Of any width."""

Indices = npt.NDArray[np.intp]
"""Positions in another array."""
