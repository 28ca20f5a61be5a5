"""Extends time indexes in tasks of their own: what a request began goes on when the request has given up, and the next
one finds it done.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.abc

from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.rest.data.index.stream_index import StreamIndex

ExtendSome = Callable[[], Awaitable[bool]]
"""Reads on for a while. Gives whether nothing is left to be read."""

AT_ONCE: Final = 4
"""Indexes that are read on at a time. The others wait for their turn, which comes after some pages."""


class _Extension:
    """What several requests wait for."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.error: Exception | None = None


class IndexBuilder:
    """All indexes that are being extended. `run` has to be running."""

    def __init__(self) -> None:
        self._tasks: anyio.abc.TaskGroup | None = None
        self._next: dict[StreamIndex, _Extension] = {}
        """Extensions that have not begun to read."""
        self._locks: dict[StreamIndex, anyio.Lock] = {}
        self._limiter = anyio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await anyio.sleep_forever()

    async def extend(self, index: StreamIndex, extend_some: ExtendSome) -> None:
        """Return when the index has everything that was written before the call. Raises why that can't be read."""
        assert self._tasks is not None, "the builder of indexes is not running"
        extension = self._next.get(index)
        if extension is None:
            extension = self._next[index] = _Extension()
            self._tasks.start_soon(self._extend, index, extend_some, extension, name="index")
        await extension.done.wait()
        if extension.error is not None:
            raise extension.error

    async def _extend(self, index: StreamIndex, extend_some: ExtendSome, extension: _Extension) -> None:
        lock = self._locks.setdefault(index, anyio.Lock())
        try:
            async with lock:
                # Who comes from now on may ask for an entry that is written after the end of the stream was read.
                del self._next[index]
                is_done = False
                while not is_done:
                    async with self._limiter:
                        is_done = await extend_some()
        except Exception as error:  # noqa: BLE001 - it is raised in the requests; the others are not to blame
            extension.error = error
            log.get().debug("gateway_index_stopped", error=str(error))
        finally:
            extension.done.set()
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._locks.pop(index, None)
