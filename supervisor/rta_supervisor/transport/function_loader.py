"""Our libraries of server functions: reads them from beside the packages that own their keys, and loads them."""

from pathlib import Path
from typing import Final

from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict

PACKAGE: Final = Path(__file__).parents[1]


def libraries() -> list[str]:
    """The code of every library: one .lua file each, in the folder of the package that owns its keys."""
    return [path.read_text() for path in sorted(PACKAGE.rglob("*.lua"))]


def library_name(code: str) -> str:
    """The name in the first line of a library."""
    return code.partition("name=")[2].split(None, 1)[0]


async def load(link: Link) -> None:
    """Put our libraries on every primary. Their names carry a version: an older supervisor keeps its own."""
    for library in libraries():
        await link.do_on_primaries("FUNCTION", "LOAD", "REPLACE", library)


async def are_loaded(link: Link) -> bool:
    """Whether every primary has all of our libraries, whatever their code."""
    wanted = {library_name(library).encode() for library in libraries()}
    lists = await link.do_on_primaries("FUNCTION", "LIST", "LIBRARYNAME", "rtas_*")
    return all(wanted <= {pairs_to_dict(library)[b"library_name"] for library in loaded} for loaded in lists)
