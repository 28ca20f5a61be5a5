"""A reader that was there all the time: follows a stream from its beginning while everything around it breaks."""

import contextlib
import threading
import time
from typing import Final

from tests.acceptance import independent_reader
from tests.chaos import oracle

PAUSE_S: Final = 0.05
BLOCK_MS: Final = 200


class Tail:
    """Reads in a thread of its own, on a connection that no fault of the network touches."""

    def __init__(self, port: int, stream: str) -> None:
        self.entries: list[oracle.Entry] = []
        self.outages = 0
        self._port = port
        self._stream = stream
        self._last = b"0-0"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tail-{stream}", daemon=True)
        self._thread.start()

    def finish(self, last: bytes, timeout_s: float = 30) -> list[oracle.Entry]:
        """Everything up to the entry with that id, and what has come since."""
        deadline_s = time.monotonic() + timeout_s
        while oracle.order(self._last) < oracle.order(last) and time.monotonic() < deadline_s:
            time.sleep(PAUSE_S)
        self._over.set()
        self._thread.join()
        return self.entries

    def _run(self) -> None:
        while not self._over.is_set():
            with (
                contextlib.suppress(OSError, ValueError, IndexError, RuntimeError),
                independent_reader.Redis(self._port) as redis,
            ):
                self._read(redis)
            self.outages += 1
            self._over.wait(PAUSE_S)

    def _read(self, redis: independent_reader.Redis) -> None:
        while not self._over.is_set():
            command = ("XREAD", "COUNT", "200", "BLOCK", str(BLOCK_MS), "STREAMS", f"stream:{self._stream}", self._last)
            reply = redis.do(*command)
            if reply == b"":
                raise ConnectionResetError("the server is gone")
            for entry in reply[0][1] if reply else ():
                self.entries.append(oracle.as_entry(entry))
                self._last = entry[0]
