"""Many commands in one round trip, packed and parsed in C: redis-py's own pipeline costs several times as much.

Connecting, signing in, timeouts and what counts as an outage stay redis-py's. Only the two ends of a round trip are
ours: one write with every command, and one read that gathers every answer.
"""

from collections.abc import Sequence
from typing import Any, Final

import hiredis
import redis.asyncio
import redis.exceptions
from redis._parsers import _AsyncHiredisParser
from redis._parsers.hiredis import NOT_ENOUGH_DATA

from rta_supervisor.transport import commands

READ_MAX_ANSWERS: Final = 1000
"""Answers that have to come within one timeout: a long batch may take longer than a command may."""


class BatchParser(_AsyncHiredisParser):
    """Reads as many answers at once as it is told to, where redis-py's costs a timer for each."""

    wanted = 0

    def on_connect(self, connection: Any) -> None:
        super().on_connect(connection)  # type: ignore[no-untyped-call]
        connection.batch_parser = self

    async def read_response(self, disable_decoding: bool = False, push_request: bool = False) -> Any:
        """One answer, or a list of those that are wanted. An error that Redis answers is an answer."""
        if not self.wanted:
            return await super().read_response(disable_decoding, push_request)
        wanted, self.wanted = self.wanted, 0
        reader: Any = self._reader
        answers: list[Any] = []
        while True:
            while (answer := reader.gets()) is not NOT_ENOUGH_DATA:
                answers.append(answer)
                if len(answers) == wanted:
                    return answers
            await self.read_from_socket()  # type: ignore[no-untyped-call]


def pack(call: commands.Command) -> bytes:
    """A command as it goes over the wire."""
    raw: bytes = hiredis.pack_command(call)  # type: ignore[arg-type] # its types know tuples of one word only
    return raw


async def exchange(pool: redis.asyncio.ConnectionPool, batch: Sequence[commands.Command]) -> list[Any]:
    """Send all, then read all. Nothing is repeated: after an outage each command may have been done or not."""
    raw = b"".join(map(pack, batch))
    connection: Any = await pool.get_connection()
    try:
        await connection.send_packed_command(raw)
        answers: list[Any] = []
        while left := len(batch) - len(answers):
            connection.batch_parser.wanted = min(left, READ_MAX_ANSWERS)
            answers += await connection.read_response()
    except BaseException:
        # Answers may be under way that the next user of the connection would take for its own.
        await connection.disconnect(nowait=True)
        raise
    else:
        return answers
    finally:
        await pool.release(connection)


def first_error(answers: Sequence[Any]) -> redis.exceptions.RedisError | None:
    return next((answer for answer in answers if isinstance(answer, redis.exceptions.RedisError)), None)
