"""Lets requests go before reports: while a request is served, work that can wait lets it pass, for a limited time."""

import contextlib
from collections.abc import Iterator

import anyio
import anyio.lowlevel


class Priority:
    """Claimed by those that go first; others yield to the claims."""

    def __init__(self) -> None:
        self._claims = 0
        self._is_free = anyio.Event()

    @contextlib.contextmanager
    def prioritized(self) -> Iterator[None]:
        """Others yield for the length of the block."""
        if not self._claims:
            self._is_free = anyio.Event()
        self._claims += 1
        try:
            yield
        finally:
            self._claims -= 1
            if not self._claims:
                self._is_free.set()

    async def yield_to_claims(self, at_most_s: float) -> float:
        """Wait until nothing is claimed, and at least let other tasks run once. Gives the time that is left."""
        if not self._claims or at_most_s <= 0:
            await anyio.lowlevel.checkpoint()
            return at_most_s
        deadline_s = anyio.current_time() + at_most_s
        with anyio.move_on_after(at_most_s):
            await self._is_free.wait()
        return deadline_s - anyio.current_time()
