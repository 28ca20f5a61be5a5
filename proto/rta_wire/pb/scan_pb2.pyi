from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Burst(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: _containers.RepeatedCompositeFieldContainer[Item]
    def __init__(self, data: _Optional[_Iterable[_Union[Item, _Mapping]]] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("session_json", "time_range", "timestamped_data", "periodic_data", "row_data", "event")
    SESSION_JSON_FIELD_NUMBER: _ClassVar[int]
    TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPED_DATA_FIELD_NUMBER: _ClassVar[int]
    PERIODIC_DATA_FIELD_NUMBER: _ClassVar[int]
    ROW_DATA_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    session_json: str
    time_range: bytes
    timestamped_data: Timestamped
    periodic_data: Periodic
    row_data: Row
    event: bytes
    def __init__(self, session_json: _Optional[str] = ..., time_range: _Optional[bytes] = ..., timestamped_data: _Optional[_Union[Timestamped, _Mapping]] = ..., periodic_data: _Optional[_Union[Periodic, _Mapping]] = ..., row_data: _Optional[_Union[Row, _Mapping]] = ..., event: _Optional[bytes] = ...) -> None: ...

class Timestamped(_message.Message):
    __slots__ = ("channel_id", "start_timestamp", "timestamp_deltas_scale", "timestamp_deltas", "buffer")
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_DELTAS_SCALE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_DELTAS_FIELD_NUMBER: _ClassVar[int]
    BUFFER_FIELD_NUMBER: _ClassVar[int]
    channel_id: int
    start_timestamp: int
    timestamp_deltas_scale: int
    timestamp_deltas: bytes
    buffer: bytes
    def __init__(self, channel_id: _Optional[int] = ..., start_timestamp: _Optional[int] = ..., timestamp_deltas_scale: _Optional[int] = ..., timestamp_deltas: _Optional[bytes] = ..., buffer: _Optional[bytes] = ...) -> None: ...

class Periodic(_message.Message):
    __slots__ = ("channel_id", "start_timestamp", "interval", "samples", "buffer")
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    START_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    BUFFER_FIELD_NUMBER: _ClassVar[int]
    channel_id: int
    start_timestamp: int
    interval: int
    samples: int
    buffer: bytes
    def __init__(self, channel_id: _Optional[int] = ..., start_timestamp: _Optional[int] = ..., interval: _Optional[int] = ..., samples: _Optional[int] = ..., buffer: _Optional[bytes] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("channel_ids", "timestamp", "buffer")
    CHANNEL_IDS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    BUFFER_FIELD_NUMBER: _ClassVar[int]
    channel_ids: bytes
    timestamp: int
    buffer: bytes
    def __init__(self, channel_ids: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., buffer: _Optional[bytes] = ...) -> None: ...
