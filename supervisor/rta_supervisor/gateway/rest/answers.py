"""Responses of REST: JSON with an ETag, problems in one form, compression where it is asked for, and conditions."""

import contextlib
import hashlib
import traceback
import zlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import msgspec
import redis.exceptions
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from rta_supervisor.diagnostics import log
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_wire import errors

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
REVALIDATE: Final = "private, no-cache"
"""A copy may be kept, and is asked about each time before it is used."""

IMMUTABLE: Final = "private, max-age=31536000, immutable"
RETRY_AFTER_S: Final = 2
COMPRESS_MIN_BYTES: Final = 1024
_LEVEL: Final = 3
_GZIP: Final = 16 + zlib.MAX_WBITS

Body = AsyncGenerator[bytes, None]
"""A body, piece by piece."""

UNAVAILABLE_ERRORS: Final = (*RETRIABLE_ERRORS, errors.Unavailable, TimeoutError)
"""What may be gone when the request is repeated."""

UNREADABLE_ERRORS: Final = (redis.exceptions.ResponseError, errors.RtaError)
"""What will be the same then: a key holds something else than it should, or the gateway may not read it."""


class CutResponse(StreamingResponse):
    """A body that is cut off where it can't be read on: a client does not take it for whole without its end."""

    def __init__(self, body: Body, media_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(body, media_type=media_type, headers=headers)
        self._body = body

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        piece = b""
        try:
            async with contextlib.aclosing(self._body):
                async for piece in self._body:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (*UNAVAILABLE_ERRORS, *UNREADABLE_ERRORS) as error:
            log.get().warning("gateway_answer_cut", error=str(error) or "it took too long")
        except BaseException as error:
            # The traceback of a request that was cancelled stays until the garbage collector comes by. What the body
            # held is freed now.
            traceback.clear_frames(error.__traceback__)
            raise
        finally:
            piece = b""


def json_answer(request: Request, value: Any, *, cache: str = REVALIDATE) -> Response:
    """A value as JSON."""
    return whole_answer(request, msgspec.json.encode(value), JSON, cache=cache)


def whole_answer(
    request: Request, body: bytes, media_type: str, *, cache: str, etag: str | None = None, is_weak: bool = True
) -> Response:
    """A body with its ETag, or 304 where the client has it."""
    tag = etag or hashlib.sha256(body).hexdigest()[:32]
    headers = {"Cache-Control": cache, "ETag": f'W/"{tag}"' if is_weak else f'"{tag}"', "Vary": "Accept-Encoding"}
    if is_known(request, tag):
        return Response(status_code=304, headers=headers)
    if len(body) >= COMPRESS_MIN_BYTES and wants_gzip(request):
        body = zlib.compress(body, _LEVEL, wbits=_GZIP)
        headers["Content-Encoding"] = "gzip"
    response = Response(body, media_type=media_type, headers=headers)
    response.headers["Content-Type"] = media_type
    if request.method == "HEAD":
        length = response.headers["Content-Length"]
        response = Response(headers=headers, media_type=media_type)
        response.headers["Content-Length"] = length
        response.headers["Content-Type"] = media_type
    return response


def stream_answer(
    request: Request, chunks: Body, media_type: str, headers: Mapping[str, str], *, is_packed: bool
) -> Response:
    """A body of any length. `is_packed`: it is compressed already."""
    all_headers = {"Vary": "Accept, Accept-Encoding", **headers}
    if wants_gzip(request) and not is_packed:
        all_headers["Content-Encoding"] = "gzip"
        chunks = _compressed(chunks)
    response = CutResponse(chunks, media_type, all_headers)
    response.headers["Content-Type"] = media_type
    return response


def head_answer(media_type: str, headers: Mapping[str, str]) -> Response:
    """The headers of a body that is not made."""
    response = Response(headers={"Vary": "Accept, Accept-Encoding", **headers})
    response.headers["Content-Type"] = media_type
    del response.headers["Content-Length"]
    return response


def is_known(request: Request, tag: str) -> bool:
    """Whether the client has the body with this ETag, compressed or not."""
    known = request.headers.get("if-none-match", "")
    return known.strip() == "*" or tag in (part.strip().removeprefix("W/").strip('"') for part in known.split(","))


def wants_gzip(request: Request) -> bool:
    for part in request.headers.get("accept-encoding", "").split(","):
        coding, _, parameters = part.strip().partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


async def _compressed(chunks: Body) -> Body:
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            if packed := packer.compress(chunk):
                yield packed
    yield packer.flush()


def problem(status: int, title: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says what is wrong, in the form of RFC 9457."""
    body = msgspec.json.encode({"type": "about:blank", "title": title, "status": status, "detail": detail})
    response = Response(body, status, {"Cache-Control": "no-store", **(headers or {})})
    response.headers["Content-Type"] = PROBLEM
    return response


def problem_of(error: Exception) -> Response:
    """The answer to an error that the request or what it needs is to blame for."""
    if isinstance(error, errors.NoSuchSession):
        # The same for one that may not be seen.
        return problem(404, "Not found", f"There is no session {error.facts['identity']!r}.")
    if isinstance(error, errors.UnknownConfig):
        return problem(404, "Not found", f"There is no configuration {error.facts['identifier']!r}.")
    if isinstance(error, errors.NotAcceptable):
        return problem(406, "Not acceptable", str(error))
    if isinstance(error, errors.Usage):
        return problem(400, "Bad request", str(error))
    retry = {"Retry-After": str(RETRY_AFTER_S)}
    return problem(503, "Not available", str(error) or "It took too long. What it began goes on: try again.", retry)
