from rta_wire.pb import data_pb2 as _data_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StreamDataBurst(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: _containers.RepeatedCompositeFieldContainer[StreamData]
    def __init__(self, data: _Optional[_Iterable[_Union[StreamData, _Mapping]]] = ...) -> None: ...

class StreamData(_message.Message):
    __slots__ = ("session_json", "time_range", "timestamped_data", "periodic_data", "row_data", "event")
    SESSION_JSON_FIELD_NUMBER: _ClassVar[int]
    TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPED_DATA_FIELD_NUMBER: _ClassVar[int]
    PERIODIC_DATA_FIELD_NUMBER: _ClassVar[int]
    ROW_DATA_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    session_json: str
    time_range: StreamTimeRange
    timestamped_data: _data_pb2.TimestampedData
    periodic_data: _data_pb2.PeriodicData
    row_data: _data_pb2.RowData
    event: _data_pb2.Event
    def __init__(self, session_json: _Optional[str] = ..., time_range: _Optional[_Union[StreamTimeRange, _Mapping]] = ..., timestamped_data: _Optional[_Union[_data_pb2.TimestampedData, _Mapping]] = ..., periodic_data: _Optional[_Union[_data_pb2.PeriodicData, _Mapping]] = ..., row_data: _Optional[_Union[_data_pb2.RowData, _Mapping]] = ..., event: _Optional[_Union[_data_pb2.Event, _Mapping]] = ...) -> None: ...

class StreamTimeRange(_message.Message):
    __slots__ = ("start_time", "end_time")
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    start_time: int
    end_time: int
    def __init__(self, start_time: _Optional[int] = ..., end_time: _Optional[int] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("subscribe",)
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    subscribe: StreamSubscription
    def __init__(self, subscribe: _Optional[_Union[StreamSubscription, _Mapping]] = ...) -> None: ...

class StreamSubscription(_message.Message):
    __slots__ = ("all_events", "all_data_channels", "data_channel_ids")
    ALL_EVENTS_FIELD_NUMBER: _ClassVar[int]
    ALL_DATA_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    DATA_CHANNEL_IDS_FIELD_NUMBER: _ClassVar[int]
    all_events: bool
    all_data_channels: bool
    data_channel_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, all_events: bool = ..., all_data_channels: bool = ..., data_channel_ids: _Optional[_Iterable[int]] = ...) -> None: ...
