"""For encoder and decoder: the layout of each channel, the type of its samples and the kind of message for them.

Writers and readers need the same plan of layouts: the wire does not say how wide a sample is.
"""

import enum
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from rta_wire import errors, limits
from rta_wire.arrays import U32, Indices


class SampleType(enum.StrEnum):
    """How a sample is stored, little-endian."""

    DOUBLE = "double"
    FLOAT = "float"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type with the same bytes."""
        return _DTYPES[self]


_DTYPES: dict[SampleType, np.dtype[Any]] = {
    SampleType.DOUBLE: np.dtype("<f8"),
    SampleType.FLOAT: np.dtype("<f4"),
    SampleType.INT8: np.dtype("i1"),
    SampleType.INT16: np.dtype("<i2"),
    SampleType.INT32: np.dtype("<i4"),
    SampleType.INT64: np.dtype("<i8"),
    SampleType.UINT8: np.dtype("u1"),
    SampleType.UINT16: np.dtype("<u2"),
    SampleType.UINT32: np.dtype("<u4"),
    SampleType.UINT64: np.dtype("<u8"),
}


class Kind(enum.StrEnum):
    """Which message carries the samples of a channel."""

    TIMESTAMPED = "timestamped"
    PERIODIC = "periodic"
    ROW = "row"


class Layout(msgspec.Struct, frozen=True):
    """How the samples of a channel are sent. `interval_ns` is for periodic channels; with 0 the encoder finds it."""

    type: SampleType = SampleType.DOUBLE
    kind: Kind = Kind.TIMESTAMPED
    interval_ns: int = 0


class Plan:
    """Layouts of channels, with a default for channels that are not named. Can be pickled, compared and hashed."""

    def __init__(self, channels: Iterable[tuple[int, Layout]] = (), *, default: Layout | None = None) -> None:
        self.default = default or Layout()
        self.channels = dict(sorted(channels))
        for channel, layout in self.channels.items():
            _check(f"channel {channel}", layout)
            if not 0 <= channel <= limits.CHANNEL_ID_MAX:
                raise errors.BadSamples(reason=f"channel {channel} is not between 0 and {limits.CHANNEL_ID_MAX}")
        _check("the default", self.default)
        self.layouts = list(dict.fromkeys([self.default, *self.channels.values()]))
        """Every layout in use. `codes` gives indices in this list."""
        code_of = {layout: code for code, layout in enumerate(self.layouts)}
        self._ids = np.fromiter(self.channels, np.uint32, len(self.channels))
        self._codes = np.fromiter(map(code_of.__getitem__, self.channels.values()), np.intp, len(self.channels))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and (self.default, self.channels) == (other.default, other.channels)

    def __hash__(self) -> int:
        return hash((self.default, tuple(self.channels.items())))

    def layout(self, channel: int) -> Layout:
        """The layout of one channel."""
        return self.channels.get(channel, self.default)

    def codes(self, channels: U32) -> Indices:
        """For each of `channels` the index of its layout in `layouts`."""
        codes = np.zeros(len(channels), np.intp)
        if len(self._ids):
            positions = np.minimum(np.searchsorted(self._ids, channels), len(self._ids) - 1)
            named = self._ids[positions] == channels
            codes[named] = self._codes[positions[named]]
        return codes


def _check(what: str, layout: Layout) -> None:
    if layout.interval_ns < 0 or layout.interval_ns > limits.TIME_NS_MAX:
        raise errors.BadSamples(reason=f"{what} has an interval of {layout.interval_ns} ns")
    if layout.interval_ns and layout.kind is not Kind.PERIODIC:
        raise errors.BadSamples(reason=f"{what} has an interval but is {layout.kind.value}, not periodic")
