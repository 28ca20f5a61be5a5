from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ChunkTransferHeader(_message.Message):
    __slots__ = ("chunk_start_time_delta", "chunk_duration_delta", "channel_ids", "compression_delta", "unpacked_length", "packed_length")
    CHUNK_START_TIME_DELTA_FIELD_NUMBER: _ClassVar[int]
    CHUNK_DURATION_DELTA_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_IDS_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_DELTA_FIELD_NUMBER: _ClassVar[int]
    UNPACKED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    PACKED_LENGTH_FIELD_NUMBER: _ClassVar[int]
    chunk_start_time_delta: int
    chunk_duration_delta: int
    channel_ids: _containers.RepeatedScalarFieldContainer[int]
    compression_delta: int
    unpacked_length: int
    packed_length: int
    def __init__(self, chunk_start_time_delta: _Optional[int] = ..., chunk_duration_delta: _Optional[int] = ..., channel_ids: _Optional[_Iterable[int]] = ..., compression_delta: _Optional[int] = ..., unpacked_length: _Optional[int] = ..., packed_length: _Optional[int] = ...) -> None: ...
