"""The routes of the viewer."""

from pathlib import Path
from typing import Final

from starlette.routing import Route

from rta_supervisor.http import static_files

FILES: Final = Path(__file__).parent / "static"


def routes() -> list[Route]:
    """The page at `/` and its files."""
    return static_files.page_routes("/", "/static", FILES)
