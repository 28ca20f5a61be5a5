"""Our libraries of server functions: read from beside the packages that own their keys, loaded, and compared."""

from pathlib import Path
from typing import Final


def library_name(code: str) -> str:
    return code.partition("name=")[2].split(None, 1)[0]


PACKAGE: Final = Path(__file__).parents[1]


def libraries() -> list[str]:
    """The code of our libraries of server functions: each stands beside the package that owns its keys."""
    return [path.read_text() for path in sorted(PACKAGE.rglob("*.lua"))]
