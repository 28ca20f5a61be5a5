"""One connection to the server of one key: commands go out many at a time, replies are read when they are needed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import hiredis
import redis
import redis.exceptions

from rta_writers.connection import redis_client, retry

T = TypeVar("T")
Command = tuple[Any, ...] | bytes
"""The words of a command, or a command as `pack` makes it of them, for those that are sent often."""

CHUNK_BYTES: Final = 6000
"""Commands up to this size are sent together: a call for each costs more than copying them."""


def pack(*words: Any) -> bytes:
    """A command as bytes of the protocol."""
    packed: bytes = hiredis.pack_command(words)
    return packed


class CommandTemplate:
    """A command of which one word changes, packed but for that word, which is None among the words."""

    def __init__(self, *words: Any) -> None:
        index = words.index(None)
        self._head = b"*%d\r\n" % len(words) + _pack_words(words[:index])
        self._tail = b"\r\n" + _pack_words(words[index + 1 :])

    def pack(self, word: bytes) -> bytes:
        """The command with the word."""
        return b"%b$%d\r\n%b%b" % (self._head, len(word), word, self._tail)


def _pack_words(words: Sequence[Any]) -> bytes:
    """Words as they are in a command, without the count before them."""
    return pack(*words).partition(b"\r\n")[2] if words else b""


def _chunks(commands: Sequence[Command]) -> Iterator[bytes]:
    """The bytes of commands, small ones joined."""
    small: list[bytes] = []
    size = 0
    for command in commands:
        packed = command if isinstance(command, bytes) else hiredis.pack_command(command)
        if size + len(packed) > CHUNK_BYTES and small:
            yield b"".join(small)
            small, size = [], 0
        small.append(packed)
        size += len(packed)
    yield small[0] if len(small) == 1 else b"".join(small)


class Pipeline:
    """Sends commands without waiting for their replies.

    A failure closes the connection, and the next command opens another one: what was sent before it may or may not
    have been executed.
    """

    def __init__(self, client: redis.Redis, url: str, key: str) -> None:
        """`url` is that of the client, for errors and the log; `key` is on the server that all commands go to."""
        self.outages = 0
        self._client = client
        self._url = url
        self._key = key
        self._connection: Any = None
        self._pool: Any = None
        self._has_failed = False
        self._missing_replies = 0

    def send(self, commands: Sequence[Command]) -> None:
        """Write commands to the connection, and open it where there is none."""
        if self._connection is None:
            if self._has_failed:
                redis_client.refresh_slots(self._client)
                self._has_failed = False
            self._pool = redis_client.client_for_key(self._client, self._key).connection_pool
            self._connection = self._pool.get_connection()
        self._missing_replies += len(commands)
        self._connection.send_packed_command(_chunks(commands))

    def has_reply(self) -> bool:
        """Whether a reply has arrived, or the connection is lost, so that reading one does not wait."""
        try:
            return self._connection is None or bool(self._connection.can_read())
        except retry.REDIS_ERRORS:
            return True

    def receive(self, count: int) -> list[Any]:
        """Read `count` replies. The first error among them is raised after the last one is read."""
        replies: list[Any] = []
        first_error: redis.exceptions.ResponseError | None = None
        while len(replies) < count:
            try:
                replies.append(self._connection.read_response())
            except redis.exceptions.ResponseError as error:
                first_error = first_error or error
                replies.append(None)
            self._missing_replies -= 1
            if len(replies) < count:
                # Most often they have all arrived together.
                parsed = redis_client.parsed_replies(self._connection, count - len(replies))
                self._missing_replies -= len(parsed)
                for reply in parsed:
                    is_error = isinstance(reply, redis.exceptions.ResponseError)
                    first_error = first_error or (reply if is_error else None)
                    replies.append(None if is_error else reply)
        if first_error is not None:
            raise first_error
        return replies

    def execute(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and read their replies."""
        self.send(commands)
        return self.receive(len(commands))

    def try_execute(self, commands: Sequence[Command]) -> None:
        """Send commands whose effect is on the connection alone, and read their replies. A failure closes it."""
        if self._connection is not None:
            try:
                self.execute(commands)
            except retry.REDIS_ERRORS:
                self._connection.disconnect()

    def release(self) -> None:
        """Return the connection to its pool. It is closed after a failure: replies may still be on their way."""
        if self._connection is not None:
            if self._missing_replies or self._has_failed:
                self._connection.disconnect()
            self._pool.release(self._connection)
            self._connection = None
            self._missing_replies = 0

    def fail(self) -> None:
        """Close the connection after an error: replies may be on their way, or the server is not the right one."""
        self._has_failed = True
        self.release()

    def with_retries(self, step: Callable[[], T], reset: Callable[[], None]) -> T:
        """Run `step` until it succeeds, through a short outage or a server that is full.

        `reset` is called after each failure: it drops what `step` knew from the connection that is closed now.
        """
        policy: retry.RetryPolicy | None = None
        while True:
            try:
                result = step()
            except retry.REDIS_ERRORS as error:
                self.outages += 1
                self.fail()
                reset()
                policy = policy or retry.RetryPolicy(self._url)
                policy.wait(error)
            else:
                if policy is not None:
                    policy.reset()
                return result
