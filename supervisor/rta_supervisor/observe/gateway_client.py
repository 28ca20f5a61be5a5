"""Asks running gateways over HTTP, for people at a command line."""

import http.client
import os
import ssl
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

TIMEOUT_S: Final = 3.0
ANSWER_MAX_BYTES: Final = 64 * 1024 * 1024
TOKEN_VARIABLE: Final = "RTA_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
"""The environment's variable with the token that is sent."""

ASKING_ERRORS: Final = (OSError, http.client.HTTPException, msgspec.DecodeError, ValueError)


def ask(address: str, path: str) -> tuple[int, Any]:
    """Status and JSON of a GET at one gateway. Raises one of `ASKING_ERRORS` where none answers there."""
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection = (
        http.client.HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_S, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
    )
    token = os.environ.get(TOKEN_VARIABLE, "")
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        body = response.read(ANSWER_MAX_BYTES)
        is_json = (response.getheader("content-type") or "").startswith("application/json")
        return response.status, msgspec.json.decode(body) if is_json else body.decode(errors="replace").strip()
    finally:
        connection.close()
