"""The routes of REST: finds the endpoint of a request, has it answered within the time limit, and counts it."""

import time
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from rta_supervisor.channels.session_channels import ChannelReader
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.live import stream_path
from rta_supervisor.gateway.parts import GatewayParts
from rta_supervisor.gateway.rest import answers, openapi, target
from rta_supervisor.gateway.rest.config_handler import ConfigHandler
from rta_supervisor.gateway.rest.data.handlers import DataHandlers
from rta_supervisor.gateway.rest.data.session_data import SessionDataStore
from rta_supervisor.gateway.rest.sessions.directory import SessionDirectory
from rta_supervisor.gateway.rest.sessions.handlers import SessionHandlers
from rta_supervisor.gateway.rest.target import Endpoint, RestTarget
from rta_wire import errors

Handler = Callable[[Request, RestTarget], Awaitable[Response]]

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""What is answered by name: with 405 where an endpoint does not take it."""

_READING: Final = ("GET", "HEAD")


class AnythingConvertor(Convertor[str]):
    """The rest of a path with any character in it. That of Starlette ends at a new line, which an identity may have."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anything", AnythingConvertor())


def routes(parts: GatewayParts) -> list[BaseRoute]:
    """Everything under `/rta/v2` but `info` and the WebSocket."""
    router = RestRouter(parts)
    return [
        Route(path, router.serve, methods=list(METHODS))
        for path in (f"{target.PREFIX}/{{rest:anything}}", "/openapi.json")
    ]


class RestRouter:
    """Has requests answered by the handlers of their endpoints."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        directory = SessionDirectory(parts.link, parts.keys, parts.catalogue)
        sessions = SessionHandlers(parts, directory)
        configs = ConfigStore(parts.link, parts.keys, parts.catalogue)
        channels = ChannelReader(configs)
        data = DataHandlers(directory, SessionDataStore(parts, channels))
        self._handlers: dict[Endpoint, Handler] = {
            Endpoint.SESSIONS: sessions.list,
            Endpoint.SESSION: sessions.show,
            Endpoint.FOLDERS: sessions.folders,
            Endpoint.METAMODEL: sessions.metamodel,
            Endpoint.PROPERTIES: sessions.properties,
            Endpoint.CONFIG: ConfigHandler(configs).show,
            Endpoint.SAMPLES: data.samples,
            Endpoint.DATA: data.data,
            Endpoint.EVENTS: data.events,
            Endpoint.OPENAPI: _describe,
        }

    async def serve(self, request: Request) -> Response:
        """The answer to any request under `/rta/v2`."""
        raw_path = request.scope.get("raw_path") or request.scope["path"].encode()
        if stream_path.identity_of(raw_path) is not None:
            sentence = f"This is a WebSocket: ask for an upgrade with the sub-protocol {stream_path.SUBPROTOCOL}.\n"
            return PlainTextResponse(sentence, 400)
        wanted = target.parse(raw_path)
        if wanted is None or wanted.endpoint not in self._handlers:
            self._parts.counts.requests["unknown", 404] += 1
            return answers.problem(404, "Not found", "There is no such endpoint. /openapi.json lists all of them.")
        began_s = time.perf_counter()
        response = await self._answer(request, wanted)
        self._parts.counts.requests[wanted.endpoint.value, response.status_code] += 1
        self._parts.counts.request_s[wanted.endpoint.value].observe(time.perf_counter() - began_s)
        return response

    async def _answer(self, request: Request, wanted: RestTarget) -> Response:
        allowed = (*_READING, "POST") if wanted.endpoint is Endpoint.SESSIONS else _READING
        if request.method not in allowed:
            sentence = f"{wanted.endpoint.value} takes {', '.join(allowed)}."
            return answers.problem(405, "Method not allowed", sentence, {"Allow": ", ".join(allowed)})
        try:
            with anyio.fail_after(self._parts.config.gateway.request_timeout_s):
                return await self._handlers[wanted.endpoint](request, wanted)
        except (errors.Usage, errors.NoSuchSession, errors.UnknownConfig) as error:
            return answers.problem_of(error)
        except (*answers.UNAVAILABLE_ERRORS, errors.ArchiveDamaged) as error:
            log.get().warning("gateway_request_failed", endpoint=wanted.endpoint.value, error=str(error))
            return answers.problem_of(error)
        except answers.UNREADABLE_ERRORS as error:
            log.get().error("gateway_request_unreadable", endpoint=wanted.endpoint.value, error=str(error))
            return answers.problem(500, "Not readable", "It can't be read. The log of the gateway says why.")


async def _describe(request: Request, _: RestTarget) -> Response:
    """`GET /openapi.json`."""
    return answers.json_answer(request, openapi.document())
