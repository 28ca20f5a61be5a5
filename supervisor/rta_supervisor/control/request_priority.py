"""Requests go before reports: while a request is served, the handling of reports waits, for a limited time."""

import contextlib
from collections.abc import Iterator

import anyio
import anyio.lowlevel


class RequestPriority:
    """Lets the handling of reports wait while requests are served."""

    def __init__(self) -> None:
        self._requests = 0
        self._is_idle = anyio.Event()

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """A request is served within the block."""
        if not self._requests:
            self._is_idle = anyio.Event()
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self._is_idle.set()

    async def yield_to_requests(self, at_most_s: float) -> float:
        """Wait until no request is served, and at least let other tasks run once. Gives the time that is left."""
        if not self._requests or at_most_s <= 0:
            await anyio.lowlevel.checkpoint()
            return at_most_s
        deadline_s = anyio.current_time() + at_most_s
        with anyio.move_on_after(at_most_s):
            await self._is_idle.wait()
        return deadline_s - anyio.current_time()
