"""Who may ask. With a token: who knows it. Without one, which is for loopback only: who asks this host by its name.

A browser that runs a foreign page can be made to ask a loopback address under a name of that page's choice; hence the
look at the name.
"""

import hmac
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import URL
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

COOKIE: Final = "rta_token"
QUERY: Final = "token"
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class AuthMiddleware:
    """Middleware before every page."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = self._rejection(HTTPConnection(scope))
        await (answer or self._app)(scope, receive, send)

    def _rejection(self, request: HTTPConnection) -> Response | None:
        """None: come in."""
        if not self._token:
            if request.url.hostname in LOOPBACK_NAMES:
                return None
            return PlainTextResponse("Ask for localhost, or set http.token.\n", 421)
        if (given := request.query_params.get(QUERY)) is not None and self._is_right(given):
            return self._redirect_with_cookie(request.url)
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        known = bearer.strip() if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")
        if self._is_right(known):
            return None
        return PlainTextResponse("The token is missing or wrong.\n", 401, {"WWW-Authenticate": "Bearer"})

    def _is_right(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(errors="surrogateescape"), self._token)

    def _redirect_with_cookie(self, url: URL) -> Response:
        """A browser that came with `?token=` keeps it as a cookie; the address that people see and share is clean."""
        rest = urlencode([(name, value) for name, value in parse_qsl(url.query) if name != QUERY])
        answer = RedirectResponse(url.path + (f"?{rest}" if rest else ""), 303)
        answer.set_cookie(COOKIE, self._token.decode(), httponly=True, samesite="strict")
        return answer
