"""Reads the marks of sessions from Redis. Writers write them: whatever stands there, each command reads a part, and all
of them together no more than a session may have.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import redis.exceptions

from rta_supervisor.nodes.server_clock import Clock
from rta_supervisor.session import time_limits
from rta_supervisor.session.marks import page as mark_page
from rta_supervisor.session.marks.page import MarkPage
from rta_supervisor.session.model import SessionRef
from rta_supervisor.settings import settings
from rta_supervisor.transport import scanning
from rta_supervisor.transport.failures import classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict

MARK_MAX_BYTES: Final = 1024
"""Memory of a mark with the name of its unit, on average: writers need a tenth of it."""

MEMORY_SAMPLES: Final = 1000
"""Marks from which Redis estimates the memory that all of them take."""

WHOLE_MAX_BYTES: Final = 1_000_000
"""Memory of marks that are read with one command where the ACL of the supervisor allows no other."""


class MarkReader:
    """One reading of the marks of a session."""

    def __init__(
        self, link: Link, config: settings.Settings, ref: SessionRef, clock: Clock, marks: Sequence[bytes] | None = None
    ) -> None:
        """`marks`: all of them, as Redis gave them, where they were read already."""
        self._marks = marks
        self._link = link
        self._config = config
        self._clock = clock
        self.key = config.keys.marks(ref.stream, ref.stream_session_id)
        self.problem = ""
        """Why not all marks were read, once `pages` has ended; empty where all were."""

        self.count = 0
        """How many marks there are, as far as that is known."""

        self.is_over_limit = False
        """Whether there are more marks than a session may have units."""

    async def pages(self) -> AsyncIterator[MarkPage]:
        """The marks, page by page. What can't be read is left out, and named in `problem`."""
        count = await self._check_size() if self._marks is None else len(self._marks) // 2
        if count == 0:
            return
        bounds_ns = time_limits.plausible_ns(self._clock(), self._config.session)
        remaining = self._config.limits.session_units
        async for flat in self._raw_pages(is_whole=count is None):
            if len(flat) > 2 * remaining:
                self._note_over_limit(max(self.count, len(flat) // 2))
            raw_marks = pairs_to_dict(flat[: 2 * remaining])
            page = mark_page.parse(raw_marks, *bounds_ns)
            if page.unreadable:
                self.problem = self.problem or f"marks that can't be read, the first is of {page.unreadable[0]}"
            yield page
            remaining -= len(raw_marks)
            if remaining <= 0:
                return

    async def _check_size(self) -> int | None:
        """How many marks are to be read; None: unknown, to be read with one command."""
        count, used_bytes = await self._link.try_all(
            [("HLEN", self.key), ("MEMORY", "USAGE", self.key, "SAMPLES", MEMORY_SAMPLES)]
        )
        if isinstance(count, redis.exceptions.NoPermissionError):
            scanning.note_missing_permission("HLEN", "HSCAN")
            if isinstance(used_bytes, int) and used_bytes > WHOLE_MAX_BYTES:
                self.problem = "marks take too much memory to be read without +hlen and +hscan in the supervisor's ACL"
                return 0
            return None
        if isinstance(count, Exception):
            if not is_key_specific(count):
                raise classify(count)
            self.problem = "something else stands in place of the marks"
            return 0
        self.count = count
        if isinstance(used_bytes, int) and used_bytes > MARK_MAX_BYTES * (count + MEMORY_SAMPLES):
            self.problem = f"{count:,} marks take {used_bytes:,} bytes, more than marks need"
            return 0
        if count > self._config.limits.session_units:
            self._note_over_limit(count)
        return int(count)

    def _note_over_limit(self, count: int) -> None:
        self.is_over_limit = True
        self.problem = f"{count:,} marks, more than limits.session_units = {self._config.limits.session_units}"

    async def _raw_pages(self, *, is_whole: bool) -> AsyncIterator[Sequence[bytes]]:
        if self._marks is not None:
            yield self._marks
            return
        if not is_whole:
            async for page in scanning.scan(self._link, scanning.Collection.HASH, self.key):
                yield page
            return
        [marks] = await self._link.try_all([("HGETALL", self.key)])
        if isinstance(marks, Exception):
            if not is_key_specific(marks):
                raise classify(marks)
            self.problem = "something else stands in place of the marks"
            return
        yield marks
