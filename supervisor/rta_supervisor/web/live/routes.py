"""The routes of the live page: its files, the stream of updates, one session, the streams of a source, where the viewer
is. Their headers restrict what a browser may do with them.
"""

import functools
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rta_supervisor.http import connection_limit, sse, static_files
from rta_supervisor.observe.queries import RedisQueries
from rta_supervisor.session.model import SessionRecord
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.web.context import WebContext
from rta_supervisor.web.live.feed import SnapshotFeed
from rta_supervisor.web.live.viewer_address import find_viewer
from rta_wire import errors, name_checks
from rta_wire.control.totals import Totals

STATIC: Final = Path(__file__).parent / "static"
PAGES_MAX: Final = 32
UNITS_MAX: Final = 200
CROSS_SITE: Final = "Another site's page may not watch."


def routes(context: WebContext) -> list[BaseRoute]:
    """Everything under `/ui`."""
    feed = SnapshotFeed(context)
    page_limit = connection_limit.ConnectionLimit(PAGES_MAX)

    async def events(request: Request) -> Response:
        if _is_cross_site(request):
            return _problem(CROSS_SITE, 403)
        if page_limit.is_reached:
            return _problem(f"{PAGES_MAX} pages watch already. Close one of them.", 503)
        return sse.EventStream(_updates(feed, context), page_limit, static_files.SECURITY_HEADERS)

    async def session(request: Request) -> Response:
        record = await _read_session(context, request)
        return record if isinstance(record, Response) else await _session_response(context, record)

    async def viewer(_: Request) -> Response:
        return _json(await find_viewer(context.config))

    return [
        *static_files.page_routes("/ui", "/ui/static", STATIC),
        Route("/ui/events", events),
        Route("/ui/session", session),
        Route("/ui/stream", functools.partial(_show_streams, context)),
        Route("/ui/viewer", viewer),
    ]


def _is_cross_site(request: Request) -> bool:
    """Whether a browser says that a page of another site made the request. That page could not read the response, but
    its connection would count against the limit."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


async def _updates(feed: SnapshotFeed, context: WebContext) -> AsyncIterator[bytes]:
    """Server-sent events for one page: a whole snapshot, then what changes in each of the next."""
    number = -1
    while not context.closing.is_set():
        number, update = await feed.next_update(number)
        yield sse.format_event(update)


async def _read_session(context: WebContext, request: Request) -> SessionRecord | Response:
    """The session that a request names, or the response that says why there is none."""
    try:
        identity = name_checks.check_identity(request.query_params.get("identity", ""))
        record = await context.sessions.read(identity)
    except errors.BadName as error:
        return _problem(str(error), 400)
    except errors.SpoiltKey as error:
        return _problem(str(error), 409)
    except RETRIABLE_ERRORS as error:
        return _problem(f"Redis does not answer: {error}", 503)
    return record or _problem("Redis does not know this session any more.", 404)


async def _read_streams(context: WebContext, request: Request) -> list[str] | Response:
    """The streams of the name in a request, of a source all of them, or the response that says why there are none."""
    try:
        name = name_checks.check_stream_name(request.query_params.get("stream", ""))
        streams = await RedisQueries(context.link, context.config).streams_of(name)
    except errors.BadName as error:
        return _problem(str(error), 400)
    except RETRIABLE_ERRORS as error:
        return _problem(f"Redis does not answer: {error}", 503)
    return streams or _problem("There is no such stream and no such source.", 404)


async def _show_streams(context: WebContext, request: Request) -> Response:
    streams = await _read_streams(context, request)
    return streams if isinstance(streams, Response) else _json({"streams": streams})


async def _session_response(context: WebContext, record: SessionRecord) -> Response:
    try:
        units = await context.sessions.all_unit_totals(record.ref.identity)
    except RETRIABLE_ERRORS as error:
        return _problem(f"Redis does not answer: {error}", 503)
    return _json(_session_json(record, units))


def _session_json(record: SessionRecord, units: Mapping[str, Totals]) -> dict[str, Any]:
    largest = sorted(units.items(), key=lambda item: (-item[1].samples, item[0]))[:UNITS_MAX]
    return {
        "identity": record.ref.identity,
        "state": record.state,
        "stream": record.ref.stream,
        "streamSessionId": record.ref.stream_session_id,
        "principal": record.principal,
        "version": record.version,
        "openedMs": record.opened_ms,
        "lostData": record.lost_data,
        "totals": _totals(record.totals),
        "units": [{"unit": name} | _totals(totals) for name, totals in largest],
        "unitCount": len(units),
        "json": _pretty(record.document),
    }


def _totals(totals: Totals) -> dict[str, Any]:
    return {
        "bursts": totals.bursts,
        "samples": totals.samples,
        "rawBytes": totals.raw_bytes,
        "storedBytes": totals.stored_bytes,
        "startNs": None if totals.start_ns is None else str(totals.start_ns),
        "endNs": None if totals.end_ns is None else str(totals.end_ns),
    }


def _pretty(document: bytes) -> str:
    try:
        return msgspec.json.format(document, indent=2).decode()
    except msgspec.DecodeError:
        return document.decode(errors="replace")


def _json(document: dict[str, Any], status: int = 200) -> Response:
    headers = static_files.SECURITY_HEADERS | {"Cache-Control": "no-store"}
    return Response(msgspec.json.encode(document), status, headers, media_type="application/json")


def _problem(sentence: str, status: int) -> Response:
    return _json({"problem": sentence}, status)
