"""Combines the commands of tasks that run at the same time: what they send in one turn of the event loop goes out in
one write, and the replies come back in one read. A round trip costs as much for one command as for some dozens.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link

COMMANDS_MAX: Final = 500
"""Commands in one round trip: none waits for the replies to many others."""


class CoalescingLink(Link):
    """A link for many tasks with a few short commands each. Not for commands that block."""

    def __init__(self, link: Link) -> None:
        """`link`: whose connections are used. They are closed with it."""
        self.config = link.config
        self.outage_log = link.outage_log
        self.address = link.address
        self.topology = link.topology
        self._queue: list[tuple[Sequence[commands.Command], asyncio.Future[list[Any]]]] = []
        self._round_trips: set[asyncio.Task[None]] = set()

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        """The replies to a batch of commands, with errors among them as exceptions.

        Commands of one batch run in order, as those of batches that a task sends one after another.
        """
        if not batch:
            return []
        loop = asyncio.get_running_loop()
        if not self._queue:
            loop.call_soon(self._send)
        replies: asyncio.Future[list[Any]] = loop.create_future()
        self._queue.append((batch, replies))
        return await replies

    def _send(self) -> None:
        """Send what was queued in this turn of the event loop."""
        queue, self._queue = self._queue, []
        parts: list[list[tuple[Sequence[commands.Command], asyncio.Future[list[Any]]]]] = [[]]
        count = 0
        for batch, replies in queue:
            if count + len(batch) > COMMANDS_MAX and parts[-1]:
                parts.append([])
                count = 0
            parts[-1].append((batch, replies))
            count += len(batch)
        for part in parts:
            task = asyncio.get_running_loop().create_task(self._exchange(part))
            self._round_trips.add(task)
            task.add_done_callback(self._round_trips.discard)

    async def _exchange(self, part: Sequence[tuple[Sequence[commands.Command], asyncio.Future[list[Any]]]]) -> None:
        """Send batches in one round trip. An outage is an outage for each of them: it may have been done or not."""
        try:
            answers = await super().try_all([command for batch, _ in part for command in batch])
        except BaseException as error:
            for _, replies in part:
                if not replies.done():
                    replies.set_exception(error if isinstance(error, Exception) else ConnectionError("interrupted"))
            if not isinstance(error, Exception):
                raise
            return
        at = 0
        for batch, replies in part:
            # Whoever was cancelled does not wait any more.
            if not replies.done():
                replies.set_result(answers[at : at + len(batch)])
            at += len(batch)
