"""Sends one POST over HTTP/1.1. Only the status line of the response is read, since nothing else of it matters.

No redirect is followed, TLS is verified, and one deadline holds for everything from the name lookup to the response.
"""

import re
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream

from rta_wire import errors

STATUS_LINE_MAX_BYTES: Final = 1024
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: |\r?\n|$)")
_PORTS: Final = {"http": 80, "https": 443}


class PostFailed(errors.RtaError):
    """{reason}"""

    retriable = True


async def post(url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float) -> None:
    """Send a POST. Raises `PostFailed` unless the status is 2xx."""
    try:
        with anyio.fail_after(timeout_s):
            status = await _send(url, _request(url, body, headers))
    except TimeoutError as error:
        raise PostFailed(reason=f"no answer within {timeout_s:g} s") from error
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
        raise PostFailed(reason=_reason(error)) from error
    if not 200 <= status < 300:
        raise PostFailed(reason=f"it answered {status}")


async def _send(url: str, request: bytes) -> int:
    parts = urlsplit(url)
    assert parts.hostname is not None
    address = (parts.hostname, parts.port or _PORTS[parts.scheme])
    connection: ByteStream
    if parts.scheme == "https":
        # Many servers close TLS without close_notify. The status line was received by then, or it is an error anyway.
        connection = await anyio.connect_tcp(*address, tls=True, tls_standard_compatible=False)
    else:
        connection = await anyio.connect_tcp(*address)
    try:
        await connection.send(request)
        return await _read_status(connection)
    finally:
        await anyio.aclose_forcefully(connection)


async def _read_status(connection: ByteStream) -> int:
    """The final status of the response. Interim responses (1xx) before it are skipped."""
    raw = b""
    while True:
        while b"\n" not in raw:
            if len(raw) > STATUS_LINE_MAX_BYTES:
                raise PostFailed(reason="its answer is not HTTP")
            raw += await connection.receive(STATUS_LINE_MAX_BYTES)
        status_line = _STATUS.match(raw)
        if status_line is None:
            raise PostFailed(reason="its answer is not HTTP")
        status = int(status_line[1])
        if status >= 200:
            return status
        while b"\r\n\r\n" not in raw:
            if len(raw) > STATUS_LINE_MAX_BYTES:
                raise PostFailed(reason=f"it answered {status} and no end of it")
            raw += await connection.receive(STATUS_LINE_MAX_BYTES)
        raw = raw.partition(b"\r\n\r\n")[2]


def _request(url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + body


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, anyio.EndOfStream | anyio.BrokenResourceError):
        return "it hung up without an answer"
    return (str(error) or type(error).__name__).splitlines()[0]
