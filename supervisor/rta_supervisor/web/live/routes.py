"""What the live page asks for: itself, what changes, one session, a plot. Strict about what a browser may do."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rta_supervisor.http import limits as http_limits
from rta_supervisor.http import sse
from rta_supervisor.session.model import SessionRecord
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.web.context import WebContext
from rta_supervisor.web.live.feed import SnapshotFeed
from rta_supervisor.web.live.plot import Plot, PlotRequest
from rta_wire import errors, keys
from rta_wire.control.totals import Totals

STATIC: Final = Path(__file__).parent / "static"
TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PAGES_MAX: Final = 32
PLOTS_MAX: Final = 8
UNITS_MAX: Final = 200
FOREIGN: Final = "Another site's page may not watch."

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def routes(parts: WebContext) -> list[BaseRoute]:
    files = {path.name: path for path in STATIC.iterdir() if path.suffix in TYPES}
    producer = SnapshotFeed(parts)
    watching, plotting = http_limits.ConnectionLimit(PAGES_MAX), http_limits.ConnectionLimit(PLOTS_MAX)

    async def page(_: Request) -> Response:
        return _file(files["index.html"])

    async def file(request: Request) -> Response:
        path = files.get(request.path_params["name"])
        return _file(path) if path else _problem("There is no such file.", 404)

    async def events(request: Request) -> Response:
        if _is_cross_site(request):
            return _problem(FOREIGN, 403)
        if watching.is_reached:
            return _problem(f"{PAGES_MAX} pages watch already. Close one of them.", 503)
        return sse.EventStream(_changes(producer, parts), watching, SECURITY_HEADERS)

    async def session(request: Request) -> Response:
        known = await _read(parts, request)
        return known if isinstance(known, Response) else _json(_about(known))

    async def plot(request: Request) -> Response:
        if _is_cross_site(request):
            return _problem(FOREIGN, 403)
        if plotting.is_reached:
            return _problem(f"{PLOTS_MAX} plots are watched already. Close one of them.", 503)
        try:
            wish = PlotRequest.parse(dict(request.query_params))
        except errors.Usage as error:
            return _problem(str(error), 400)
        known = await _read(parts, request)
        if isinstance(known, Response):
            return known
        return sse.EventStream(
            Plot(parts.link, parts.config.keys, known.ref, wish).events(parts.closing), plotting, SECURITY_HEADERS
        )

    return [
        Route("/ui", page),
        Route("/ui/events", events),
        Route("/ui/session", session),
        Route("/ui/plot", plot),
        Route("/ui/static/{name}", file),
    ]


def _is_cross_site(request: Request) -> bool:
    """Whether a browser says that somebody else's page asks. It could not read the answer, but it would take a seat."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


async def _changes(producer: SnapshotFeed, parts: WebContext) -> AsyncIterator[bytes]:
    seen = -1
    while not parts.closing.is_set():
        seen, body = await producer.next_update(seen)
        yield sse.format_event(body)


async def _read(parts: WebContext, request: Request) -> SessionRecord | Response:
    """The session that a request is about, or what is wrong."""
    try:
        identity = keys.check_identity(request.query_params.get("identity", ""))
        known = await parts.sessions.read(identity)
    except errors.BadName as error:
        return _problem(str(error), 400)
    except RETRIABLE_ERRORS as error:
        return _problem(f"Redis does not answer: {error}", 503)
    return known or _problem("Redis does not know this session any more.", 404)


def _about(known: SessionRecord) -> dict[str, Any]:
    units = {name: Totals.from_words(words.split(" ")) for name, words in known.unit_totals.items()}
    largest = sorted(units.items(), key=lambda item: (-item[1].samples, item[0]))[:UNITS_MAX]
    return {
        "identity": known.ref.identity,
        "state": known.state,
        "stream": known.ref.stream,
        "streamSessionId": known.ref.stream_session_id,
        "principal": known.principal,
        "version": known.version,
        "openedMs": known.opened_ms,
        "lostData": known.lost_data,
        "totals": _totals(known.totals),
        "units": [{"unit": name} | _totals(totals) for name, totals in largest],
        "unitCount": len(units),
        "json": _pretty(known.document),
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


def _file(path: Path) -> Response:
    return Response(path.read_bytes(), headers=SECURITY_HEADERS, media_type=TYPES[path.suffix])


def _json(document: dict[str, Any], status: int = 200) -> Response:
    headers = SECURITY_HEADERS | {"Cache-Control": "no-store"}
    return Response(msgspec.json.encode(document), status, headers, media_type="application/json")


def _problem(sentence: str, status: int) -> Response:
    return _json({"problem": sentence}, status)
