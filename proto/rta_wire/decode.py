"""Bursts to messages, safe on any bytes."""

import lz4.block
from google.protobuf.message import DecodeError

from rta_wire import errors, limits, stream_pb2


def burst(data: bytes) -> stream_pb2.StreamDataBurst:
    """The message inside the `data` of an entry."""
    try:
        raw = lz4.block.decompress(data, uncompressed_size=limits.BURST_MAX_BYTES)
    except lz4.block.LZ4BlockError as error:
        raise errors.BadBurst(reason=f"not an LZ4 block of at most {limits.BURST_MAX_BYTES} bytes: {error}") from error
    try:
        return stream_pb2.StreamDataBurst.FromString(raw)
    except DecodeError as error:
        raise errors.BadBurst(reason=f"not a StreamDataBurst: {error}") from error
