"""The address of a session's WebSocket. Pure."""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

SUBPROTOCOL: Final = "mat.ocs.rta.stream-lz4"

_RAW_PATH: Final = re.compile(rb"/rta/v2/sessions/(.+)/stream")


def identity_of(raw_path: bytes) -> str | None:
    """The identity in the path of a WebSocket, percent-encoded as the client sent it; None for any other path."""
    match = _RAW_PATH.fullmatch(raw_path)
    if match is None:
        return None
    try:
        return unquote_to_bytes(match[1]).decode()
    except UnicodeDecodeError:
        return None
