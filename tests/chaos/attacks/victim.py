"""Honest programs beside an attack, each with a principal of its own: they open, update, write and close sessions.

A cycle is a short session. One more session is open all the time and written to, so that its time range can be looked
at. Steps and what was acknowledged are noted.
"""

import argparse
import contextlib
import random
import sys
import threading
import time
from pathlib import Path
from typing import Final

import redis

import rta_writers
from rta_wire import errors
from rta_wire.control.totals import Totals
from tests.chaos import die_with_parent, stamps
from tests.chaos.attacks.recording import Recorder

SAMPLES: Final = 40
LIVE_EVERY_S: Final = 0.1
REPLY_TIMEOUT_S: Final = 20.0
PAUSE_SHARE: Final = (0.5, 1.5)
"""Principals know nothing of each other: with equal pauses all of them would ask in the same moment."""

ERRORS: Final = (errors.RtaError, redis.exceptions.RedisError, OSError)


class Principal:
    """One honest principal."""

    def __init__(self, url: str, name: str, record: Recorder, stop: Path, pause_s: float) -> None:
        self.name = name
        self._record = record
        self._stop = stop
        self._pause_s = pause_s
        self._sessions = rta_writers.SessionClient(url, principal=name, timeout_s=REPLY_TIMEOUT_S)

    def cycles(self) -> None:
        """Short sessions, one after the other, until the file that says stop is there."""
        number = 0
        chooser = random.Random(self.name)  # noqa: S311 - to be repeated
        while not self._stop.exists():
            with contextlib.suppress(*ERRORS):  # noted; the next one shows whether it got better
                self._cycle(f"{self.name}-{number}")
            number += 1
            time.sleep(self._pause_s * chooser.uniform(*PAUSE_SHARE))

    def _cycle(self, identity: str) -> None:
        with self._record.timed("open", identity):
            session = self._sessions.open(identity, stream=f"{self.name}.short")
        with self._record.timed("update", identity):
            session.update(comment="updated")
        codes = stamps.codes(0, 0, 0, SAMPLES)
        with (
            self._record.timed("write", f"{session.target.stream_session_id}"),
            rta_writers.BurstWriter(session.options, unit="u") as writer,
        ):
            writer.samples(stamps.channels(codes), stamps.times_ns(codes), stamps.values(codes))
        with self._record.timed("close", identity):
            ended = session.close(expected=Totals(samples=SAMPLES))
        if ended.state != "closed" or ended.totals.samples != SAMPLES:
            with self._record.timed("wrong end", f"{identity} {ended.state} {ended.totals.samples}"):
                pass

    def live(self) -> None:
        """One session that is written to all the time, with samples of now."""
        with self._record.timed("live open"):
            session = self._sessions.open(f"{self.name}-live", stream=f"{self.name}.live")
        count = 0
        try:
            with rta_writers.BurstWriter(session.options, unit="live") as writer:
                while not self._stop.exists():
                    with self._record.timed("live write"):
                        writer.samples([1], [time.time_ns()], [float(count)])
                        writer.flush()
                    count += 1
                    time.sleep(LIVE_EVERY_S)
            with self._record.timed("live close"):
                ended = session.close(expected=Totals(samples=count))
            if ended.state != "closed" or ended.totals.samples != count:
                with self._record.timed("wrong end", f"{session.identity} {ended.state} {ended.totals.samples}"):
                    pass
        except ERRORS as error:
            print(f"{session.identity}: {error}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+")
    parser.add_argument("--url", required=True, help="with NAME where the name of the principal goes")
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--stop", type=Path, required=True)
    parser.add_argument("--pause-s", type=float, required=True)
    args = parser.parse_args()
    die_with_parent.enable()
    record = Recorder(args.notes)
    threads = []
    for name in args.names:
        principal = Principal(args.url.replace("NAME", name), name, record, args.stop, args.pause_s)
        threads += [threading.Thread(target=principal.cycles), threading.Thread(target=principal.live)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
