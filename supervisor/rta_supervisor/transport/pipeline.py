"""Many commands in one round trip, packed and parsed in C: redis-py's own pipeline costs several times as much.

Connecting, signing in, timeouts and outages are redis-py's. Ours are one write with all commands, and one read that
gathers all replies.
"""

from collections.abc import Sequence
from typing import Any, Final

import hiredis
import redis.asyncio
import redis.exceptions
from redis._parsers import _AsyncHiredisParser
from redis._parsers.hiredis import NOT_ENOUGH_DATA

from rta_supervisor.transport import commands

READ_MAX_REPLIES: Final = 1000
"""Replies that one read waits for, and one timeout applies to: a long batch may take longer than a command may."""


class BatchParser(_AsyncHiredisParser):
    """Reads `wanted` replies at once, where the parser of redis-py needs a timer for each."""

    wanted = 0

    def on_connect(self, connection: Any) -> None:
        super().on_connect(connection)  # type: ignore[no-untyped-call]
        connection.batch_parser = self

    async def read_response(self, disable_decoding: bool = False, push_request: bool = False) -> Any:
        """One reply, or a list of as many as are wanted. Error replies are among them as exceptions."""
        if not self.wanted:
            return await super().read_response(disable_decoding, push_request)
        wanted, self.wanted = self.wanted, 0
        reader: Any = self._reader
        replies: list[Any] = []
        while True:
            while (reply := reader.gets()) is not NOT_ENOUGH_DATA:
                replies.append(reply)
                if len(replies) == wanted:
                    return replies
            await self.read_from_socket()  # type: ignore[no-untyped-call]


def pack(command: commands.Command) -> bytes:
    """A command in the protocol of Redis."""
    raw: bytes = hiredis.pack_command(command)  # type: ignore[arg-type] # its types know tuples of one argument only
    return raw


async def exchange(pool: redis.asyncio.ConnectionPool, batch: Sequence[commands.Command]) -> list[Any]:
    """Send a batch and give its replies. Nothing is retried: after an outage each command may have been done or not."""
    raw = b"".join(map(pack, batch))
    connection: Any = await pool.get_connection()
    try:
        await connection.send_packed_command(raw)
        replies: list[Any] = []
        while missing := len(batch) - len(replies):
            connection.batch_parser.wanted = min(missing, READ_MAX_REPLIES)
            replies += await connection.read_response()
    except BaseException:
        # Replies may still come, which the next user of the connection would take for its own.
        await connection.disconnect(nowait=True)
        raise
    else:
        return replies
    finally:
        await pool.release(connection)


def first_error(replies: Sequence[Any]) -> redis.exceptions.RedisError | None:
    """The first error among replies; None if there is none."""
    return next((reply for reply in replies if isinstance(reply, redis.exceptions.RedisError)), None)
