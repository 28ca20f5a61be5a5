"""Everything that can be asked for, behind one door."""

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from rta_supervisor.http.auth import AuthMiddleware
from rta_supervisor.web import basics
from rta_supervisor.web.context import WebContext
from rta_supervisor.web.live import routes as live


def routes(parts: WebContext) -> list[BaseRoute]:
    """A page adds its routes here."""
    return [*basics.routes(parts), *live.routes(parts)]


def build(parts: WebContext) -> Starlette:
    return Starlette(routes=routes(parts), middleware=[Middleware(AuthMiddleware, token=parts.config.http.token)])
