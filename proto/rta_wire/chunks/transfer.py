"""The bytes of a response made of chunks: for each the length of its header, the header and an LZ4 block. Pure."""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import lz4.block

from rta_wire.pb import chunks_pb2

MEDIA_TYPE: Final = "application/vnd.mat.protobuf+chunked"
LZ4_MODE: Final = 1

_LENGTH: Final = struct.Struct("<i")


class Chunk(NamedTuple):
    """A chunk before it is packed: the times of its first and last sample, and its list of messages."""

    channel_ids: Sequence[int]
    start_ns: int
    end_ns: int
    payload: bytes


class ChunkPacker:
    """Packs the chunks of one response. What a header says is relative to the chunk before it."""

    def __init__(self) -> None:
        self._start_ns = 0
        self._duration_ns = 0
        self._mode = 0

    def pack(self, chunk: Chunk) -> bytes:
        """The bytes of the next chunk."""
        packed: bytes = lz4.block.compress(chunk.payload, store_size=False)
        duration_ns = chunk.end_ns - chunk.start_ns
        header = chunks_pb2.ChunkTransferHeader(
            chunk_start_time_delta=chunk.start_ns - self._start_ns,
            chunk_duration_delta=duration_ns - self._duration_ns,
            channel_ids=chunk.channel_ids,
            compression_delta=LZ4_MODE - self._mode,
            unpacked_length=len(chunk.payload),
            packed_length=len(packed),
        ).SerializeToString()
        self._start_ns, self._duration_ns, self._mode = chunk.start_ns, duration_ns, LZ4_MODE
        return b"".join((_LENGTH.pack(len(header)), header, packed))
