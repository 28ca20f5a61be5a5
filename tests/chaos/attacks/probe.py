"""Looks at a host beside an attack: a bare client's PING, the time range that readers see, /health, as threads."""

import argparse
import contextlib
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import redis

from rta_wire import keys
from rta_writers.connection import redis_client
from tests.chaos import die_with_parent
from tests.chaos.attacks.recording import Recorder, Step
from tests.support import http_client

PING_EVERY_S: Final = 0.01
RANGE_EVERY_S: Final = 0.05
HEALTH_EVERY_S: Final = 0.25


class Probe:
    """Notes what it sees until the file that says stop is there."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._record = Recorder(args.notes)

    def run(self) -> None:
        threads = [
            threading.Thread(target=self._repeat, args=(PING_EVERY_S, self._ping())),
            threading.Thread(target=self._repeat, args=(RANGE_EVERY_S, self._time_range())),
            threading.Thread(target=self._repeat, args=(HEALTH_EVERY_S, self._health)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _repeat(self, every_s: float, look: Callable[[], None]) -> None:
        while not self._args.stop.exists():
            with contextlib.suppress(redis.exceptions.RedisError, OSError):  # noted
                look()
            time.sleep(every_s)

    def _ping(self) -> Callable[[], None]:
        client = redis_client.connect(self._args.url)

        def ping() -> None:
            with self._record.timed("ping"):
                client.ping()

        return ping

    def _time_range(self) -> Callable[[], None]:
        """How old the end of the time range is that readers of the live session see."""
        client = redis_client.connect(self._args.url)

        def look() -> None:
            raw: Any = client.hget(f"sessions:{self._args.live}", keys.T_END)
            if raw:
                self._record.note(Step("range age", time.monotonic(), (time.time_ns() - int(raw)) / 1e6))

        return look

    def _health(self) -> None:
        with self._record.timed("health"):
            answer = http_client.get(self._args.http, "/health")
            if answer.status != 200:
                raise OSError(f"/health answered {answer.status}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True, help="of a reader")
    parser.add_argument("--http", required=True)
    parser.add_argument("--live", required=True, help="the session whose time range is looked at")
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--stop", type=Path, required=True)
    args = parser.parse_args()
    die_with_parent.enable()
    Probe(args).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
