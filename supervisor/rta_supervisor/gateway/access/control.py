"""Decides who may look. With tokens: whoever sends one, as a header or as a cookie. Without, which the settings allow
on loopback only: whoever asks for this host by a name of its own.

The same decision holds for HTTP and for WebSockets, whose upgrade a browser sends on behalf of any page: a browser
without a token of its own has to come from a page of this gateway, or of an origin that the settings name.
"""

import time
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rta_supervisor.gateway.access.grant import LOCAL, Grant
from rta_supervisor.gateway.access.signed_tokens import SignedTokens
from rta_supervisor.gateway.access.token_file import TokenFile
from rta_supervisor.http.auth import LOOPBACK_NAMES, QUERY, location_without_token
from rta_supervisor.settings import settings

COOKIE: Final = "rta_gateway_token"
"""Not the name that the operators' page uses: cookies of one host reach all of its ports."""

PUBLIC_PATHS: Final = frozenset({"/rta/v2/info"})
"""What says which token is needed can't need one."""

REFRESH_S: Final = 1.0
"""How often files with tokens and keys are looked at."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is not accepted."""

    status: int
    sentence: str

    @property
    def headers(self) -> dict[str, str]:
        return {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}

    def to_response(self) -> Response:
        return PlainTextResponse(f"{self.sentence}\n", self.status, self.headers)


class AccessControl:
    """Gives each request its grant, or refuses it."""

    def __init__(self, config: settings.GatewaySettings) -> None:
        self._config = config
        path = config.token_path
        self._file = None if path is None else TokenFile(path)
        self._signed = SignedTokens(config) if config.jwks_file else None
        self._names = LOOPBACK_NAMES | set(config.host_names)
        self._checked_s = time.monotonic()

    @property
    def needs_token(self) -> bool:
        return self._file is not None or self._signed is not None

    def decide(self, request: HTTPConnection) -> Grant | Refusal:
        """What a request may see. For HTTP and for upgrades to WebSocket."""
        is_upgrade = request.scope["type"] == "websocket"
        if not self.needs_token:
            if request.url.hostname not in self._names:
                return Refusal(421, "Ask for localhost, or name this host in gateway.host_names.")
            return LOCAL if not is_upgrade or self._is_own_page(request) else _FOREIGN
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.find(bearer.strip()) or _WRONG
        grant = self.find(request.cookies.get(COOKIE, ""))
        if grant is None:
            return _WRONG
        return grant if not is_upgrade or self._is_own_page(request) else _FOREIGN

    def find(self, token: str) -> Grant | None:
        """What a token may see; None where it is not valid."""
        if not token:
            return None
        self._refresh()
        grant = None if self._file is None else self._file.find(token)
        return grant if grant is not None or self._signed is None else self._signed.find(token)

    def is_valid(self, grant: Grant) -> bool:
        """Whether a grant that was given before still holds."""
        if grant.expires_s is not None and time.time() >= grant.expires_s:
            return False
        if not self.needs_token:
            return True
        self._refresh()
        return any(source is not None and source.has(grant) for source in (self._file, self._signed))

    def may_see(self, request: HTTPConnection, stream: str) -> bool:
        """Whether sessions of a stream exist for whoever sent a request that was accepted."""
        return grant_of(request).may_see(stream)

    def _refresh(self) -> None:
        now_s = time.monotonic()
        if now_s - self._checked_s < REFRESH_S:
            return
        self._checked_s = now_s
        for source in (self._file, self._signed):
            if source is not None:
                source.refresh()

    def _is_own_page(self, request: HTTPConnection) -> bool:
        """Whether an upgrade comes from no browser, or from a page that may open it."""
        origin = request.headers.get("origin")
        if origin is None or origin in self._config.origins or "*" in self._config.origins:
            return True
        try:
            return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
        except ValueError:
            return False


_WRONG: Final = Refusal(
    401, "The token is missing or wrong. Send it as Authorization: Bearer, or open the address once with ?token=…"
)
_FOREIGN: Final = Refusal(403, "A page of another origin may not open this. Name its origin in gateway.origins.")


def grant_of(request: HTTPConnection) -> Grant:
    """The grant of a request that the middleware accepted."""
    grant: Grant = request.scope["state"]["grant"]
    return grant


class AccessMiddleware:
    """ASGI middleware: accepted requests go on with their grant in the scope, all others are answered here."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        response = self._intercept(HTTPConnection(scope))
        await (response or self._app)(scope, receive, send)

    def _intercept(self, request: HTTPConnection) -> Response | None:
        """A refusal, or a redirect that turns a token in the address into a cookie. None: the request is accepted."""
        token = request.query_params.get(QUERY)
        if token is not None and request.scope["type"] == "http" and self._access.find(token) is not None:
            return _redirect_with_cookie(request, token)
        decision = self._access.decide(request)
        if isinstance(decision, Refusal):
            if decision.status != 401 or request.scope["path"] not in PUBLIC_PATHS:
                return decision.to_response()
            return None
        request.scope.setdefault("state", {})["grant"] = decision
        return None


def _redirect_with_cookie(request: HTTPConnection, token: str) -> Response:
    """Moves the token from the address to a cookie: what people see and share is clean."""
    raw_path = request.scope["raw_path"].decode("ascii", "replace")
    # As it was sent: an identity may have an encoded slash in it.
    response = RedirectResponse(location_without_token(raw_path, request.url.query, safe="/%"), 303)
    is_tls = request.scope.get("scheme") == "https"
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=is_tls)
    return response
