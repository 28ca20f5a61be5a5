"""The web application: `/` says what this is, `/health` whether it can do its work, `/metrics` how much it does, and
`/ui` is the live page. Authentication comes before all of them.
"""

import socket

from prometheus_client import exposition
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rta_supervisor.http.auth import AuthMiddleware
from rta_supervisor.web.context import WebContext
from rta_supervisor.web.live import routes as live_routes
from rta_wire import __version__


def build(context: WebContext) -> Starlette:
    """The application, with all routes. The routes of another page are added here."""
    routes = [*_basic_routes(context), *live_routes.routes(context)]
    return Starlette(routes=routes, middleware=[Middleware(AuthMiddleware, token=context.config.http.token)])


def _basic_routes(context: WebContext) -> list[BaseRoute]:
    async def version(_: Request) -> Response:
        about = {"name": "rta-supervisor", "version": __version__}
        return JSONResponse(about | {"node": context.node_id, "host": socket.gethostname()})

    async def health(_: Request) -> Response:
        readiness = context.health.readiness()
        return JSONResponse(readiness.to_json(), 200 if readiness.is_ready else 503, {"Cache-Control": "no-store"})

    async def metrics(request: Request) -> Response:
        encode, content_type = exposition.choose_encoder(request.headers.get("accept", ""))
        return Response(encode(context.registry), headers={"Content-Type": content_type})

    return [Route("/", version), Route("/health", health), Route("/metrics", metrics)]
