"""`/` says what this is, `/health` whether it can do its work, `/metrics` how much of it."""

import socket

from prometheus_client import exposition
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rta_supervisor.web.context import WebContext
from rta_wire import __version__


def routes(parts: WebContext) -> list[BaseRoute]:
    async def version(_: Request) -> Response:
        about = {"name": "rta-supervisor", "version": __version__}
        return JSONResponse(about | {"node": parts.node_id, "host": socket.gethostname()})

    async def health(_: Request) -> Response:
        verdict = parts.health.readiness()
        return JSONResponse(verdict.to_json(), 200 if verdict.is_ready else 503, {"Cache-Control": "no-store"})

    async def metrics(request: Request) -> Response:
        encode, content_type = exposition.choose_encoder(request.headers.get("accept", ""))
        return Response(encode(parts.registry), headers={"Content-Type": content_type})

    return [Route("/", version), Route("/health", health), Route("/metrics", metrics)]
