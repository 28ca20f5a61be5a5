"""The HTTP application of the gateway: `/` is the viewer, `/health` whether it can serve, `/metrics` how much it
does, `/rta/v2/info` what a viewer needs to know first. REST adds its routes. Access is decided before all of them.

WebSockets never get here: their upgrades are answered by `live`, by the same rules of access.
"""

import msgspec
from prometheus_client import exposition
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rta_supervisor.gateway.access.control import AccessMiddleware, grant_of
from rta_supervisor.gateway.parts import GatewayParts
from rta_supervisor.gateway.rest import answers
from rta_supervisor.gateway.rest import routes as rest_routes
from rta_supervisor.gateway.viewer import routes as viewer_routes
from rta_wire import __version__


def build(parts: GatewayParts) -> Starlette:
    """The application, with all routes."""
    routes = [*_basic_routes(parts), *rest_routes.routes(parts), *viewer_routes.routes()]
    middleware = [Middleware(AccessMiddleware, access=parts.access)]
    if origins := parts.config.gateway.origins:
        # Before access: what a browser asks first, whether it may ask at all, comes without a token.
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "HEAD", "POST"],
            allow_headers=["Authorization", "If-None-Match"],
            expose_headers=["ETag"],
        )
        middleware.insert(0, cors)
    return Starlette(routes=routes, middleware=middleware)


def _basic_routes(parts: GatewayParts) -> list[BaseRoute]:
    async def health(_: Request) -> Response:
        readiness = parts.health.readiness()
        return JSONResponse(readiness.to_json(), 200 if readiness.is_ready else 503, {"Cache-Control": "no-store"})

    async def metrics(request: Request) -> Response:
        encode, content_type = exposition.choose_encoder(request.headers.get("accept", ""))
        return Response(encode(parts.registry), headers={"Content-Type": content_type})

    async def info(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return answers.problem(405, "Method not allowed", "info takes GET, HEAD.", {"Allow": "GET, HEAD"})
        return JSONResponse(describe(parts), headers={"Cache-Control": "no-store"})

    async def viewers(request: Request) -> Response:
        lines = msgspec.to_builtins(parts.live.viewers.lines(grant_of(request)))
        return JSONResponse({"viewers": lines}, headers={"Cache-Control": "no-store"})

    return [
        Route("/health", health),
        Route("/metrics", metrics),
        Route("/viewers", viewers),
        # With every method: the routes of REST take what this one leaves, and know no such endpoint.
        Route("/rta/v2/info", info, methods=list(rest_routes.METHODS)),
    ]


def describe(parts: GatewayParts) -> dict[str, object]:
    """What `info` says. Its form is not published: what clients may look for stands there under several names."""
    config = parts.config.gateway
    needs_token = parts.access.needs_token
    return {
        "label": config.label,
        "name": config.label,
        "description": config.description,
        "version": __version__,
        "authentication": "bearer" if needs_token else "none",
        "authenticationRequired": needs_token,
        "requiresToken": needs_token,
        "issuer": config.jwt_issuer or None,
        "audience": config.jwt_audience or None,
    }
