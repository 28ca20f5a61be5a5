from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PutConfigRequest(_message.Message):
    __slots__ = ("identifier", "content_type", "data")
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    identifier: str
    content_type: str
    data: bytes
    def __init__(self, identifier: _Optional[str] = ..., content_type: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class PutConfigStreamRequest(_message.Message):
    __slots__ = ("info", "piece")
    INFO_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    info: ConfigInfo
    piece: bytes
    def __init__(self, info: _Optional[_Union[ConfigInfo, _Mapping]] = ..., piece: _Optional[bytes] = ...) -> None: ...

class ConfigInfo(_message.Message):
    __slots__ = ("identifier", "content_type")
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    identifier: str
    content_type: str
    def __init__(self, identifier: _Optional[str] = ..., content_type: _Optional[str] = ...) -> None: ...

class HasConfigRequest(_message.Message):
    __slots__ = ("identifier",)
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    identifier: str
    def __init__(self, identifier: _Optional[str] = ...) -> None: ...
