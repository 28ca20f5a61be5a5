from google.protobuf import empty_pb2 as _empty_pb2
from google.protobuf import wrappers_pb2 as _wrappers_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateOrUpdateSessionRequest(_message.Message):
    __slots__ = ("identity", "sequence", "create_if_not_exists", "updates")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CREATE_IF_NOT_EXISTS_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    identity: str
    sequence: _wrappers_pb2.Int64Value
    create_if_not_exists: NewSession
    updates: _containers.RepeatedCompositeFieldContainer[SessionUpdate]
    def __init__(self, identity: _Optional[str] = ..., sequence: _Optional[_Union[_wrappers_pb2.Int64Value, _Mapping]] = ..., create_if_not_exists: _Optional[_Union[NewSession, _Mapping]] = ..., updates: _Optional[_Iterable[_Union[SessionUpdate, _Mapping]]] = ...) -> None: ...

class NewSession(_message.Message):
    __slots__ = ("state", "timestamp", "identifier")
    STATE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    state: int
    timestamp: str
    identifier: str
    def __init__(self, state: _Optional[int] = ..., timestamp: _Optional[str] = ..., identifier: _Optional[str] = ...) -> None: ...

class SessionUpdate(_message.Message):
    __slots__ = ("update_heartbeat", "set_state", "set_timestamp", "set_time_range", "extend_time_range", "clear_time_range", "set_identifier", "set_details", "update_details", "set_details_json", "update_details_json", "delete_details", "set_type", "clear_type", "set_quality", "clear_quality", "set_group", "clear_group", "set_version", "clear_version", "set_config_bindings", "update_config_bindings", "delete_config_bindings")
    UPDATE_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    SET_STATE_FIELD_NUMBER: _ClassVar[int]
    SET_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    SET_TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    EXTEND_TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    CLEAR_TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    SET_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    SET_DETAILS_FIELD_NUMBER: _ClassVar[int]
    UPDATE_DETAILS_FIELD_NUMBER: _ClassVar[int]
    SET_DETAILS_JSON_FIELD_NUMBER: _ClassVar[int]
    UPDATE_DETAILS_JSON_FIELD_NUMBER: _ClassVar[int]
    DELETE_DETAILS_FIELD_NUMBER: _ClassVar[int]
    SET_TYPE_FIELD_NUMBER: _ClassVar[int]
    CLEAR_TYPE_FIELD_NUMBER: _ClassVar[int]
    SET_QUALITY_FIELD_NUMBER: _ClassVar[int]
    CLEAR_QUALITY_FIELD_NUMBER: _ClassVar[int]
    SET_GROUP_FIELD_NUMBER: _ClassVar[int]
    CLEAR_GROUP_FIELD_NUMBER: _ClassVar[int]
    SET_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLEAR_VERSION_FIELD_NUMBER: _ClassVar[int]
    SET_CONFIG_BINDINGS_FIELD_NUMBER: _ClassVar[int]
    UPDATE_CONFIG_BINDINGS_FIELD_NUMBER: _ClassVar[int]
    DELETE_CONFIG_BINDINGS_FIELD_NUMBER: _ClassVar[int]
    update_heartbeat: _empty_pb2.Empty
    set_state: int
    set_timestamp: str
    set_time_range: TimeRange
    extend_time_range: TimeRange
    clear_time_range: _empty_pb2.Empty
    set_identifier: str
    set_details: Details
    update_details: Details
    set_details_json: JsonDetails
    update_details_json: JsonDetails
    delete_details: DetailKeys
    set_type: _wrappers_pb2.StringValue
    clear_type: _empty_pb2.Empty
    set_quality: float
    clear_quality: _empty_pb2.Empty
    set_group: str
    clear_group: _empty_pb2.Empty
    set_version: str
    clear_version: _empty_pb2.Empty
    set_config_bindings: ConfigBindings
    update_config_bindings: ConfigBindings
    delete_config_bindings: ConfigBindingKeys
    def __init__(self, update_heartbeat: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., set_state: _Optional[int] = ..., set_timestamp: _Optional[str] = ..., set_time_range: _Optional[_Union[TimeRange, _Mapping]] = ..., extend_time_range: _Optional[_Union[TimeRange, _Mapping]] = ..., clear_time_range: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., set_identifier: _Optional[str] = ..., set_details: _Optional[_Union[Details, _Mapping]] = ..., update_details: _Optional[_Union[Details, _Mapping]] = ..., set_details_json: _Optional[_Union[JsonDetails, _Mapping]] = ..., update_details_json: _Optional[_Union[JsonDetails, _Mapping]] = ..., delete_details: _Optional[_Union[DetailKeys, _Mapping]] = ..., set_type: _Optional[_Union[_wrappers_pb2.StringValue, _Mapping]] = ..., clear_type: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., set_quality: _Optional[float] = ..., clear_quality: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., set_group: _Optional[str] = ..., clear_group: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., set_version: _Optional[str] = ..., clear_version: _Optional[_Union[_empty_pb2.Empty, _Mapping]] = ..., set_config_bindings: _Optional[_Union[ConfigBindings, _Mapping]] = ..., update_config_bindings: _Optional[_Union[ConfigBindings, _Mapping]] = ..., delete_config_bindings: _Optional[_Union[ConfigBindingKeys, _Mapping]] = ...) -> None: ...

class TimeRange(_message.Message):
    __slots__ = ("start_time", "end_time")
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    start_time: int
    end_time: int
    def __init__(self, start_time: _Optional[int] = ..., end_time: _Optional[int] = ...) -> None: ...

class Details(_message.Message):
    __slots__ = ("category", "details")
    class DetailsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    category: str
    details: _containers.ScalarMap[str, str]
    def __init__(self, category: _Optional[str] = ..., details: _Optional[_Mapping[str, str]] = ...) -> None: ...

class JsonDetails(_message.Message):
    __slots__ = ("category", "json")
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    category: str
    json: str
    def __init__(self, category: _Optional[str] = ..., json: _Optional[str] = ...) -> None: ...

class DetailKeys(_message.Message):
    __slots__ = ("category", "keys")
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    category: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, category: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ...) -> None: ...

class ConfigBindings(_message.Message):
    __slots__ = ("bindings",)
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    bindings: _containers.RepeatedCompositeFieldContainer[ConfigBinding]
    def __init__(self, bindings: _Optional[_Iterable[_Union[ConfigBinding, _Mapping]]] = ...) -> None: ...

class ConfigBinding(_message.Message):
    __slots__ = ("identifier", "channel_offset")
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    identifier: str
    channel_offset: int
    def __init__(self, identifier: _Optional[str] = ..., channel_offset: _Optional[int] = ...) -> None: ...

class ConfigBindingKeys(_message.Message):
    __slots__ = ("identifiers",)
    IDENTIFIERS_FIELD_NUMBER: _ClassVar[int]
    identifiers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, identifiers: _Optional[_Iterable[str]] = ...) -> None: ...
