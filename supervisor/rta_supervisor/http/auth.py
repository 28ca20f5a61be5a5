"""Decides which HTTP requests are accepted. With a token: those that carry it. Without one, which the settings allow on
loopback only: those whose host name is one of this host.

A browser that runs a foreign page can be made to send requests to a loopback address under a host name of that page's
choice (DNS rebinding); hence the check of the host name.
"""

import hmac
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

COOKIE: Final = "rta_token"
QUERY: Final = "token"
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class AuthMiddleware:
    """ASGI middleware that passes accepted requests to the application, and responds to all others itself."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        response = self._intercept(HTTPConnection(scope))
        await (response or self._app)(scope, receive, send)

    def _intercept(self, request: HTTPConnection) -> Response | None:
        """A refusal, or a redirect that drops the token from the address. None: the request is accepted."""
        if not self._token:
            if request.url.hostname in LOOPBACK_NAMES:
                return None
            return PlainTextResponse("Ask for localhost, or set http.token.\n", 421)
        if (token := request.query_params.get(QUERY)) is not None and self._is_right(token):
            return self._redirect_with_cookie(request)
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        token = bearer.strip() if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")
        if self._is_right(token):
            return None
        return PlainTextResponse("The token is missing or wrong.\n", 401, {"WWW-Authenticate": "Bearer"})

    def _is_right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(errors="surrogateescape"), self._token)

    def _redirect_with_cookie(self, request: HTTPConnection) -> Response:
        """Moves the token from `?token=` to a cookie: the address that people see and share is clean."""
        response = RedirectResponse(location_without_token(request.scope["path"], request.url.query), 303)
        response.set_cookie(COOKIE, self._token.decode(), httponly=True, samesite="strict")
        return response


def location_without_token(path: str, query: str, *, safe: str = "/") -> str:
    """Where to ask again without the token: on this host. A path that began with two slashes would name another one.
    `safe`: what is not encoded in it."""
    rest = urlencode([(name, value) for name, value in parse_qsl(query) if name != QUERY])
    return "/" + quote(path.lstrip("/\\"), safe=safe) + (f"?{rest}" if rest else "")
