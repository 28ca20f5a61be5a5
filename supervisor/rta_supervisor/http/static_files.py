"""Files of a page: its own and those that pages share, with headers that restrict what a browser may do with them."""

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

SHARED: Final = Path(__file__).parent / "static"
MEDIA_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def page_routes(path: str, files_path: str, folder: Path) -> list[Route]:
    """Routes of a page: the file `index.html` of its folder at `path`, the others below `files_path`."""
    files = {file.name: file for place in (SHARED, folder) for file in place.iterdir() if file.suffix in MEDIA_TYPES}

    async def page(_: Request) -> Response:
        return _file(files["index.html"])

    async def file(request: Request) -> Response:
        file_path = files.get(request.path_params["name"])
        return PlainTextResponse("There is no such file.\n", 404) if file_path is None else _file(file_path)

    return [Route(path, page), Route(f"{files_path}/{{name}}", file)]


def _file(path: Path) -> Response:
    return Response(path.read_bytes(), headers=SECURITY_HEADERS, media_type=MEDIA_TYPES[path.suffix])
