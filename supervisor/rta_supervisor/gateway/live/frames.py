"""WebSocket frames of the server, and the bursts that the gateway makes itself. Pure."""

import struct
from collections.abc import Iterable, Iterator
from typing import Final

import lz4.block

from rta_wire.pb import stream_pb2

BINARY: Final = 0x82
"""First byte of a whole message of bytes."""

PONG: Final = 0x8A
"""First byte of a pong."""

_SHORT_MAX: Final = 125
_MEDIUM_MAX: Final = 0xFFFF
MADE_BURST_BYTES: Final = 64 * 1024
"""About how large bursts are that hold last values."""


def binary(payload: bytes) -> bytes:
    """A frame with a payload. A server does not mask, so that all viewers can be sent the same bytes."""
    size = len(payload)
    if size <= _SHORT_MAX:
        return bytes((BINARY, size)) + payload
    if size <= _MEDIUM_MAX:
        return struct.pack("!BBH", BINARY, 126, size) + payload
    return struct.pack("!BBQ", BINARY, 127, size) + payload


def compressed(raw: bytes) -> bytes:
    """A frame with one raw LZ4 block of a serialized burst."""
    return binary(lz4.block.compress(raw, store_size=False))


def session_json(document: str) -> bytes:
    """A frame with Session JSON and nothing else."""
    burst = stream_pb2.StreamDataBurst(data=[stream_pb2.StreamData(session_json=document)])
    return compressed(burst.SerializeToString())


def time_range(start_ns: int, end_ns: int) -> bytes:
    """A frame with a time range and nothing else."""
    span = stream_pb2.StreamTimeRange(start_time=start_ns, end_time=end_ns)
    return compressed(stream_pb2.StreamDataBurst(data=[stream_pb2.StreamData(time_range=span)]).SerializeToString())


def of_items(items: Iterable[bytes]) -> Iterator[bytes]:
    """Frames with messages as they stand in bursts, tag and length included."""
    chosen: list[bytes] = []
    size = 0
    for item in items:
        if size and size + len(item) > MADE_BURST_BYTES:
            yield compressed(b"".join(chosen))
            chosen, size = [], 0
        chosen.append(item)
        size += len(item)
    if chosen:
        yield compressed(b"".join(chosen))
