from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Control(_message.Message):
    __slots__ = ("version", "open", "close", "progress", "heartbeat", "update", "cancel", "resurrect", "archived", "get", "list", "piece", "trim", "publish_config", "get_config")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    RESURRECT_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    GET_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    TRIM_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_CONFIG_FIELD_NUMBER: _ClassVar[int]
    GET_CONFIG_FIELD_NUMBER: _ClassVar[int]
    version: int
    open: OpenSession
    close: CloseSession
    progress: Progress
    heartbeat: Heartbeat
    update: UpdateSession
    cancel: CancelRequest
    resurrect: ResurrectSession
    archived: NoteArchived
    get: GetSession
    list: ListSessions
    piece: StorePiece
    trim: TrimStream
    publish_config: PublishConfig
    get_config: GetConfig
    def __init__(self, version: _Optional[int] = ..., open: _Optional[_Union[OpenSession, _Mapping]] = ..., close: _Optional[_Union[CloseSession, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., update: _Optional[_Union[UpdateSession, _Mapping]] = ..., cancel: _Optional[_Union[CancelRequest, _Mapping]] = ..., resurrect: _Optional[_Union[ResurrectSession, _Mapping]] = ..., archived: _Optional[_Union[NoteArchived, _Mapping]] = ..., get: _Optional[_Union[GetSession, _Mapping]] = ..., list: _Optional[_Union[ListSessions, _Mapping]] = ..., piece: _Optional[_Union[StorePiece, _Mapping]] = ..., trim: _Optional[_Union[TrimStream, _Mapping]] = ..., publish_config: _Optional[_Union[PublishConfig, _Mapping]] = ..., get_config: _Optional[_Union[GetConfig, _Mapping]] = ...) -> None: ...

class OpenSession(_message.Message):
    __slots__ = ("request_id", "identity", "stream", "session_json", "external_id", "payload", "config_identifier")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SESSION_JSON_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONFIG_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    identity: str
    stream: str
    session_json: str
    external_id: str
    payload: Payload
    config_identifier: str
    def __init__(self, request_id: _Optional[str] = ..., identity: _Optional[str] = ..., stream: _Optional[str] = ..., session_json: _Optional[str] = ..., external_id: _Optional[str] = ..., payload: _Optional[_Union[Payload, _Mapping]] = ..., config_identifier: _Optional[str] = ...) -> None: ...

class UpdateSession(_message.Message):
    __slots__ = ("request_id", "identity", "properties_json", "state", "external_id", "payload", "config_identifier")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_JSON_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONFIG_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    identity: str
    properties_json: str
    state: str
    external_id: str
    payload: Payload
    config_identifier: str
    def __init__(self, request_id: _Optional[str] = ..., identity: _Optional[str] = ..., properties_json: _Optional[str] = ..., state: _Optional[str] = ..., external_id: _Optional[str] = ..., payload: _Optional[_Union[Payload, _Mapping]] = ..., config_identifier: _Optional[str] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("request_id", "target_request_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    target_request_id: str
    def __init__(self, request_id: _Optional[str] = ..., target_request_id: _Optional[str] = ...) -> None: ...

class CloseSession(_message.Message):
    __slots__ = ("request_id", "identity", "state", "expected")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    identity: str
    state: str
    expected: Totals
    def __init__(self, request_id: _Optional[str] = ..., identity: _Optional[str] = ..., state: _Optional[str] = ..., expected: _Optional[_Union[Totals, _Mapping]] = ...) -> None: ...

class ResurrectSession(_message.Message):
    __slots__ = ("request_id", "identity")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    identity: str
    def __init__(self, request_id: _Optional[str] = ..., identity: _Optional[str] = ...) -> None: ...

class NoteArchived(_message.Message):
    __slots__ = ("request_id", "identity", "stream_session_id", "version", "checksum", "location", "first_id", "last_id", "entries", "size_bytes", "until", "added")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STREAM_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    FIRST_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    identity: str
    stream_session_id: int
    version: int
    checksum: str
    location: str
    first_id: str
    last_id: str
    entries: int
    size_bytes: int
    until: str
    added: int
    def __init__(self, request_id: _Optional[str] = ..., identity: _Optional[str] = ..., stream_session_id: _Optional[int] = ..., version: _Optional[int] = ..., checksum: _Optional[str] = ..., location: _Optional[str] = ..., first_id: _Optional[str] = ..., last_id: _Optional[str] = ..., entries: _Optional[int] = ..., size_bytes: _Optional[int] = ..., until: _Optional[str] = ..., added: _Optional[int] = ...) -> None: ...

class GetSession(_message.Message):
    __slots__ = ("request_id", "identity", "external_id", "json_offset")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ID_FIELD_NUMBER: _ClassVar[int]
    JSON_OFFSET_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    identity: str
    external_id: str
    json_offset: int
    def __init__(self, request_id: _Optional[str] = ..., identity: _Optional[str] = ..., external_id: _Optional[str] = ..., json_offset: _Optional[int] = ...) -> None: ...

class ListSessions(_message.Message):
    __slots__ = ("request_id", "text", "states", "stream", "since_ns", "until_ns", "details", "limit", "after")
    class DetailsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SINCE_NS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    text: str
    states: _containers.RepeatedScalarFieldContainer[str]
    stream: str
    since_ns: int
    until_ns: int
    details: _containers.ScalarMap[str, str]
    limit: int
    after: PageCursor
    def __init__(self, request_id: _Optional[str] = ..., text: _Optional[str] = ..., states: _Optional[_Iterable[str]] = ..., stream: _Optional[str] = ..., since_ns: _Optional[int] = ..., until_ns: _Optional[int] = ..., details: _Optional[_Mapping[str, str]] = ..., limit: _Optional[int] = ..., after: _Optional[_Union[PageCursor, _Mapping]] = ...) -> None: ...

class PageCursor(_message.Message):
    __slots__ = ("stream_session_id", "identity")
    STREAM_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    stream_session_id: int
    identity: str
    def __init__(self, stream_session_id: _Optional[int] = ..., identity: _Optional[str] = ...) -> None: ...

class StorePiece(_message.Message):
    __slots__ = ("request_id", "payload_id", "number", "data", "checksum")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    payload_id: str
    number: int
    data: bytes
    checksum: bytes
    def __init__(self, request_id: _Optional[str] = ..., payload_id: _Optional[str] = ..., number: _Optional[int] = ..., data: _Optional[bytes] = ..., checksum: _Optional[bytes] = ...) -> None: ...

class TrimStream(_message.Message):
    __slots__ = ("request_id", "stream", "keep_entries", "before_ms")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    KEEP_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    stream: str
    keep_entries: int
    before_ms: int
    def __init__(self, request_id: _Optional[str] = ..., stream: _Optional[str] = ..., keep_entries: _Optional[int] = ..., before_ms: _Optional[int] = ...) -> None: ...

class PublishConfig(_message.Message):
    __slots__ = ("request_id", "config_json", "payload")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    config_json: str
    payload: Payload
    def __init__(self, request_id: _Optional[str] = ..., config_json: _Optional[str] = ..., payload: _Optional[_Union[Payload, _Mapping]] = ...) -> None: ...

class GetConfig(_message.Message):
    __slots__ = ("request_id", "identifier", "offset")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    identifier: str
    offset: int
    def __init__(self, request_id: _Optional[str] = ..., identifier: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class Payload(_message.Message):
    __slots__ = ("id", "pieces", "size_bytes", "checksum")
    ID_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    id: str
    pieces: int
    size_bytes: int
    checksum: bytes
    def __init__(self, id: _Optional[str] = ..., pieces: _Optional[int] = ..., size_bytes: _Optional[int] = ..., checksum: _Optional[bytes] = ...) -> None: ...

class Totals(_message.Message):
    __slots__ = ("bursts", "samples", "raw_bytes", "stored_bytes", "start_time", "end_time")
    BURSTS_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    RAW_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    bursts: int
    samples: int
    raw_bytes: int
    stored_bytes: int
    start_time: int
    end_time: int
    def __init__(self, bursts: _Optional[int] = ..., samples: _Optional[int] = ..., raw_bytes: _Optional[int] = ..., stored_bytes: _Optional[int] = ..., start_time: _Optional[int] = ..., end_time: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("identity", "stream_session_id", "unit", "totals")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STREAM_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    identity: str
    stream_session_id: int
    unit: str
    totals: Totals
    def __init__(self, identity: _Optional[str] = ..., stream_session_id: _Optional[int] = ..., unit: _Optional[str] = ..., totals: _Optional[_Union[Totals, _Mapping]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("identity", "stream_session_id")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STREAM_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    identity: str
    stream_session_id: int
    def __init__(self, identity: _Optional[str] = ..., stream_session_id: _Optional[int] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("version", "request_id", "session", "error", "page", "trim", "config", "config_part")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    TRIM_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    CONFIG_PART_FIELD_NUMBER: _ClassVar[int]
    version: int
    request_id: str
    session: SessionReply
    error: ErrorReply
    page: SessionPage
    trim: TrimReply
    config: ConfigReply
    config_part: ConfigPart
    def __init__(self, version: _Optional[int] = ..., request_id: _Optional[str] = ..., session: _Optional[_Union[SessionReply, _Mapping]] = ..., error: _Optional[_Union[ErrorReply, _Mapping]] = ..., page: _Optional[_Union[SessionPage, _Mapping]] = ..., trim: _Optional[_Union[TrimReply, _Mapping]] = ..., config: _Optional[_Union[ConfigReply, _Mapping]] = ..., config_part: _Optional[_Union[ConfigPart, _Mapping]] = ...) -> None: ...

class ConfigReply(_message.Message):
    __slots__ = ("identifier", "warnings")
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    identifier: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, identifier: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class ConfigPart(_message.Message):
    __slots__ = ("identifier", "data", "size_bytes")
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    identifier: str
    data: bytes
    size_bytes: int
    def __init__(self, identifier: _Optional[str] = ..., data: _Optional[bytes] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class TrimReply(_message.Message):
    __slots__ = ("stream", "removed_entries", "entries", "is_partial", "kept_because")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    REMOVED_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    IS_PARTIAL_FIELD_NUMBER: _ClassVar[int]
    KEPT_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    stream: str
    removed_entries: int
    entries: int
    is_partial: bool
    kept_because: str
    def __init__(self, stream: _Optional[str] = ..., removed_entries: _Optional[int] = ..., entries: _Optional[int] = ..., is_partial: bool = ..., kept_because: _Optional[str] = ...) -> None: ...

class SessionReply(_message.Message):
    __slots__ = ("identity", "stream", "stream_session_id", "state", "totals", "missing")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    STREAM_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    identity: str
    stream: str
    stream_session_id: int
    state: str
    totals: Totals
    missing: Totals
    def __init__(self, identity: _Optional[str] = ..., stream: _Optional[str] = ..., stream_session_id: _Optional[int] = ..., state: _Optional[str] = ..., totals: _Optional[_Union[Totals, _Mapping]] = ..., missing: _Optional[_Union[Totals, _Mapping]] = ...) -> None: ...

class SessionPage(_message.Message):
    __slots__ = ("sessions", "next")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[FoundSession]
    next: PageCursor
    def __init__(self, sessions: _Optional[_Iterable[_Union[FoundSession, _Mapping]]] = ..., next: _Optional[_Union[PageCursor, _Mapping]] = ...) -> None: ...

class FoundSession(_message.Message):
    __slots__ = ("identity", "stream", "stream_session_id", "state", "totals", "principal", "version", "opened_ms", "updated_ms", "is_in_redis", "archive_location", "json", "json_bytes")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    STREAM_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OPENED_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_MS_FIELD_NUMBER: _ClassVar[int]
    IS_IN_REDIS_FIELD_NUMBER: _ClassVar[int]
    ARCHIVE_LOCATION_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    JSON_BYTES_FIELD_NUMBER: _ClassVar[int]
    identity: str
    stream: str
    stream_session_id: int
    state: str
    totals: Totals
    principal: str
    version: int
    opened_ms: int
    updated_ms: int
    is_in_redis: bool
    archive_location: str
    json: bytes
    json_bytes: int
    def __init__(self, identity: _Optional[str] = ..., stream: _Optional[str] = ..., stream_session_id: _Optional[int] = ..., state: _Optional[str] = ..., totals: _Optional[_Union[Totals, _Mapping]] = ..., principal: _Optional[str] = ..., version: _Optional[int] = ..., opened_ms: _Optional[int] = ..., updated_ms: _Optional[int] = ..., is_in_redis: bool = ..., archive_location: _Optional[str] = ..., json: _Optional[bytes] = ..., json_bytes: _Optional[int] = ...) -> None: ...

class ErrorReply(_message.Message):
    __slots__ = ("code", "message", "retriable")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRIABLE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retriable: bool
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retriable: bool = ...) -> None: ...
