"""Reads how much memory streams take, a page at a time: there may be thousands of them."""

from collections.abc import Sequence
from typing import Any, Final

from rta_supervisor.transport import paging
from rta_supervisor.transport.link import Link

SAMPLES: Final = 100
"""Nodes of a stream from which Redis estimates its memory. Its first nodes may be small and all others large."""


async def read(link: Link, stream_keys: Sequence[str]) -> dict[str, int]:
    """The memory of each key in bytes. Keys that don't exist, or can't be asked for, are left out."""

    async def read_page(page: Sequence[str]) -> list[Any]:
        return await link.try_all([("MEMORY", "USAGE", key, "SAMPLES", SAMPLES) for key in page])

    sizes = await paging.map_pages(stream_keys, read_page)
    return {key: size for key, size in zip(stream_keys, sizes, strict=True) if isinstance(size, int)}
