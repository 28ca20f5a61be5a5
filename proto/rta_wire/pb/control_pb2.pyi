from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Control(_message.Message):
    __slots__ = ("version", "open", "close", "progress", "heartbeat", "update", "cancel", "resurrect", "archived")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    RESURRECT_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    version: int
    open: OpenSession
    close: CloseSession
    progress: Progress
    heartbeat: Heartbeat
    update: UpdateSession
    cancel: CancelRequest
    resurrect: ResurrectSession
    archived: NoteArchived
    def __init__(self, version: _Optional[int] = ..., open: _Optional[_Union[OpenSession, _Mapping]] = ..., close: _Optional[_Union[CloseSession, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., update: _Optional[_Union[UpdateSession, _Mapping]] = ..., cancel: _Optional[_Union[CancelRequest, _Mapping]] = ..., resurrect: _Optional[_Union[ResurrectSession, _Mapping]] = ..., archived: _Optional[_Union[NoteArchived, _Mapping]] = ...) -> None: ...

class OpenSession(_message.Message):
    __slots__ = ("request_id", "identity", "stream", "session_json", "external_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SESSION_JSON_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    identity: str
    stream: str
    session_json: str
    external_id: str
    def __init__(self, request_id: _Optional[str] = ..., identity: _Optional[str] = ..., stream: _Optional[str] = ..., session_json: _Optional[str] = ..., external_id: _Optional[str] = ...) -> None: ...

class UpdateSession(_message.Message):
    __slots__ = ("request_id", "identity", "properties_json", "state", "external_id")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_JSON_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    identity: str
    properties_json: str
    state: str
    external_id: str
    def __init__(self, request_id: _Optional[str] = ..., identity: _Optional[str] = ..., properties_json: _Optional[str] = ..., state: _Optional[str] = ..., external_id: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("request_id", "identity", "stream_session_id", "version", "checksum", "location", "first_id", "last_id", "entries", "size_bytes")
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
    def __init__(self, request_id: _Optional[str] = ..., identity: _Optional[str] = ..., stream_session_id: _Optional[int] = ..., version: _Optional[int] = ..., checksum: _Optional[str] = ..., location: _Optional[str] = ..., first_id: _Optional[str] = ..., last_id: _Optional[str] = ..., entries: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("version", "request_id", "session", "error")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    version: int
    request_id: str
    session: SessionReply
    error: ErrorReply
    def __init__(self, version: _Optional[int] = ..., request_id: _Optional[str] = ..., session: _Optional[_Union[SessionReply, _Mapping]] = ..., error: _Optional[_Union[ErrorReply, _Mapping]] = ...) -> None: ...

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

class ErrorReply(_message.Message):
    __slots__ = ("code", "message", "retriable")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRIABLE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retriable: bool
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retriable: bool = ...) -> None: ...
