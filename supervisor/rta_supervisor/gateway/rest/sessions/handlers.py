"""Answers requests for sessions, folders and the metamodel."""

from typing import Any, Final
from urllib.parse import parse_qsl

import anyio
from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request
from starlette.responses import Response

from rta_supervisor.gateway.access.control import grant_of
from rta_supervisor.gateway.parts import GatewayParts
from rta_supervisor.gateway.rest import answers
from rta_supervisor.gateway.rest.sessions.directory import SessionDirectory
from rta_supervisor.gateway.rest.sessions.list_request import ListRequest
from rta_supervisor.gateway.rest.sessions.metamodel import PropertyCensus
from rta_supervisor.gateway.rest.target import RestTarget
from rta_wire import errors

FORM: Final = "application/x-www-form-urlencoded"
FORM_MAX_BYTES: Final = 256 * 1024
FORM_MAX_FIELDS: Final = 1000
CENSUS_MAX_AGE_S: Final = 30.0
CENSUSES_MAX: Final = 100


class SessionHandlers:
    """The endpoints about sessions."""

    def __init__(self, parts: GatewayParts, directory: SessionDirectory) -> None:
        self._config = parts.config
        self._directory = directory
        self._censuses: dict[tuple[str, ...], tuple[float, PropertyCensus]] = {}

    async def list(self, request: Request, _: RestTarget) -> Response:
        """`GET` and `POST /sessions`."""
        fields = await _read_form(request) if request.method == "POST" else request.query_params
        wanted = ListRequest.parse(fields, self._config.gateway)
        # There is one folder, the root.
        rows = [] if wanted.folder else await self._directory.find(wanted.query, grant_of(request))
        return answers.json_answer(request, {"sessions": [wanted.shown(row) for row in rows]})

    async def show(self, request: Request, target: RestTarget) -> Response:
        """`GET /sessions/{identity}`."""
        row = await self._directory.describe(target.name, grant_of(request))
        return answers.json_answer(request, row.document())

    async def folders(self, request: Request, _: RestTarget) -> Response:
        """`GET /session-folders/{parent}`: there are none."""
        return answers.json_answer(request, [])

    async def metamodel(self, request: Request, _: RestTarget) -> Response:
        """`GET /session-metamodel`."""
        return answers.json_answer(request, (await self._census(request)).to_json())

    async def properties(self, request: Request, _: RestTarget) -> Response:
        """`GET /session-metamodel/properties`."""
        text = request.query_params.get("query", "")
        return answers.json_answer(request, (await self._census(request)).properties(text))

    async def _census(self, request: Request) -> PropertyCensus:
        """The properties of the sessions that whoever asks may see, at most half a minute old."""
        grant = grant_of(request)
        now_s = anyio.current_time()
        due_s, census = self._censuses.get(grant.prefixes, (0.0, None))
        if census is None or now_s >= due_s:
            rows = await self._directory.visible_rows(grant)
            census = await self._directory.run(lambda: PropertyCensus().add_all(rows))
            if len(self._censuses) >= CENSUSES_MAX:
                self._censuses.clear()
            self._censuses[grant.prefixes] = now_s + CENSUS_MAX_AGE_S, census
        return census


async def _read_form(request: Request) -> ImmutableMultiDict[str, Any]:
    """The form in the body of a POST, within a bound; without a body there are no fields."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_MAX_BYTES:
            raise errors.BadQuery(where="body", reason=f"it has more than {FORM_MAX_BYTES} bytes")
    if not body:
        return ImmutableMultiDict()
    if media_type != FORM:
        raise errors.BadQuery(where="body", reason=f"it is of type {media_type or 'none'!r}, not {FORM}")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=FORM_MAX_FIELDS)
    except ValueError as error:
        raise errors.BadQuery(where="body", reason=f"it is no form: {error}") from error
    return ImmutableMultiDict(pairs)
