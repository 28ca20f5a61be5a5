"""Packs and unpacks batches in a worker thread, one at a time, so that sessions are served meanwhile."""

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from rta_wire import entry_ids
from rta_wire.cold import batch as cold_batch
from rta_wire.cold.lz4_roundtrip import RawEntry

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_limiter: Final = anyio.CapacityLimiter(1)


async def run(function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Call a function that takes long in the worker thread."""
    return await anyio.to_thread.run_sync(function, *arguments, limiter=_limiter)


async def unpack_entries(data: bytes, after: str = entry_ids.MIN, until: str | None = None) -> list[RawEntry]:
    """The entries of a batch after one id and up to another, as they were live."""
    return await run(cold_batch.unpack_entries, data, after, until)
