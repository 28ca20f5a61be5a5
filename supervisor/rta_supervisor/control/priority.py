"""Who goes first: while a request is served, work that can wait lets it pass, for a while."""

import contextlib
from collections.abc import Iterator

import anyio
import anyio.lowlevel


class Priority:
    """One that is claimed now and then, and many that give way to it."""

    def __init__(self) -> None:
        self._claims = 0
        self._free = anyio.Event()

    @contextlib.contextmanager
    def prioritized(self) -> Iterator[None]:
        """Others wait for the length of the block."""
        if not self._claims:
            self._free = anyio.Event()
        self._claims += 1
        try:
            yield
        finally:
            self._claims -= 1
            if not self._claims:
                self._free.set()

    async def yield_to_claims(self, at_most_s: float) -> float:
        """Let what is claimed pass, and everybody else have a turn. Gives the time that is left of what was allowed."""
        if not self._claims or at_most_s <= 0:
            await anyio.lowlevel.checkpoint()
            return at_most_s
        until_s = anyio.current_time() + at_most_s
        with anyio.move_on_after(at_most_s):
            await self._free.wait()
        return until_s - anyio.current_time()
