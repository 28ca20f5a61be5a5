"""Which endpoint of REST a request is for, by its path as it was sent. Pure.

Identities are one segment of the path, percent-encoded, and may have any character in them: so the path is divided
before it is decoded. An identity with `/` that was not encoded is understood too, as far as that is possible.
"""

import enum
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

PREFIX: Final = "/rta/v2"


class Endpoint(enum.StrEnum):
    """Endpoints, by the names that they have in metrics and in the OpenAPI document."""

    SESSIONS = "sessions"
    SESSION = "session"
    FOLDERS = "session_folders"
    METAMODEL = "session_metamodel"
    PROPERTIES = "session_properties"
    CONFIG = "config"
    SAMPLES = "samples"
    DATA = "data"
    EVENTS = "events"
    OPENAPI = "openapi"


class RestTarget(msgspec.Struct, frozen=True):
    """An endpoint with what the path says about it."""

    endpoint: Endpoint
    name: str = ""
    """The identity of a session, the identifier of a configuration or the name of a folder."""
    kind: str = ""
    """Of data: timestamped, periodic or row."""
    channels: str = ""


_KINDS: Final = frozenset({b"timestamped", b"periodic", b"row"})
_DATA: Final = b"data"


def parse(raw_path: bytes) -> RestTarget | None:
    """The target of a path; None where there is no such endpoint, or a name in it is no UTF-8."""
    if raw_path == b"/openapi.json":
        return RestTarget(Endpoint.OPENAPI)
    prefix = f"{PREFIX}/".encode()
    if not raw_path.startswith(prefix):
        return None
    first, *rest = raw_path[len(prefix) :].split(b"/")
    try:
        return _PARSERS[first](rest) if first in _PARSERS else None
    except UnicodeDecodeError:
        return None


def _sessions(segments: list[bytes]) -> RestTarget | None:
    if segments in ([], [b""]):
        return RestTarget(Endpoint.SESSIONS)
    if segments[-1] == _DATA and len(segments) > 1:
        return RestTarget(Endpoint.SAMPLES, _decode(segments[:-1]))
    if segments[-2:] == [_DATA, b"events"] and len(segments) > 2:
        return RestTarget(Endpoint.EVENTS, _decode(segments[:-2]))
    if len(segments) > 3 and segments[-3] == _DATA and segments[-2] in _KINDS:
        return RestTarget(Endpoint.DATA, _decode(segments[:-3]), segments[-2].decode(), _decode(segments[-1:]))
    return RestTarget(Endpoint.SESSION, _decode(segments))


def _folders(segments: list[bytes]) -> RestTarget | None:
    return RestTarget(Endpoint.FOLDERS, _decode(segments))


def _metamodel(segments: list[bytes]) -> RestTarget | None:
    if not segments:
        return RestTarget(Endpoint.METAMODEL)
    return RestTarget(Endpoint.PROPERTIES) if segments == [b"properties"] else None


def _configs(segments: list[bytes]) -> RestTarget | None:
    return RestTarget(Endpoint.CONFIG, _decode(segments)) if any(segments) else None


_PARSERS: Final = {
    b"sessions": _sessions,
    b"session-folders": _folders,
    b"session-metamodel": _metamodel,
    b"configs": _configs,
}


def _decode(segments: list[bytes]) -> str:
    return unquote_to_bytes(b"/".join(segments)).decode()
