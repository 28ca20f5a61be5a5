"""Ends a call to PostgreSQL that takes too long, by shutting the socket of its connection down.

The timeouts of the server do not help where the server itself is frozen or unreachable.
"""

import contextlib
import os
import socket
import threading

import psycopg

from rta_supervisor.catalogue.postgres_schema import Connection


class ConnectionGuard:
    """Watches one connection from a thread of its own, because the thread that uses it is blocked in a call."""

    def __init__(self, connection: Connection, limit_s: float) -> None:
        self._connection = connection
        self._limit_s = limit_s
        self._is_over = threading.Event()
        self._has_progress = True
        self._thread = threading.Thread(target=self._watch, name="catalogue-guard", daemon=True)
        self.was_shut_down = False

    def start(self) -> None:
        self._thread.start()

    def note_progress(self) -> None:
        """The server has answered, and more calls follow: the limit begins again."""
        self._has_progress = True

    def stop(self) -> None:
        """Stop watching. Afterwards `was_shut_down` says whether the limit was exceeded."""
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while self._has_progress:
            self._has_progress = False
            if self._is_over.wait(self._limit_s):
                return
        self.was_shut_down = True
        with (
            contextlib.suppress(psycopg.OperationalError, OSError),  # it is closed by now
            socket.socket(fileno=os.dup(self._connection.pgconn.socket)) as duplicate,
        ):
            # The blocked call reads an end of file.
            duplicate.shutdown(socket.SHUT_RDWR)
