"""Index entries and headers of batches for tests."""

from typing import Any

import msgspec

from rta_wire.cold.batch import ZSTD, Header
from rta_wire.stream.cold_index import ColdExtent

_EXTENT = ColdExtent(
    *("9000000-0", "9000030-0"),
    entries=30,
    batches=3,
    added=35,
    size_bytes=300,
    live_bytes=900,
    raw_bytes=3000,
    number=7,
    noted_ms=5,
)
_HEADER = Header(
    *(ZSTD, "9000000-0", "9000010-0"),
    entries=10,
    raw_bytes=1000,
    live_bytes=300,
    lz4_version=0,
    sizes=(0, 0, 0, 0),
    stored=(0, 0, 0, 0),
)


def extent(**changes: Any) -> ColdExtent:
    """The index entry of three batches with ten entries each."""
    return msgspec.structs.replace(_EXTENT, **changes)


def header(**changes: Any) -> Header:
    """The header of a batch with ten entries."""
    return msgspec.structs.replace(_HEADER, **changes)
