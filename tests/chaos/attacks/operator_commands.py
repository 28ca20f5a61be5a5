"""An operator beside an attack: lists sessions and abandons one of its own, again and again, with the real commands."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Final

import redis

import rta_writers
from rta_wire import errors
from tests.chaos import die_with_parent
from tests.chaos.attacks.recording import Recorder
from tests.support.commands import run

PAUSE_S: Final = 0.5
ANSWER_TIMEOUT_S: Final = "20"
LISTED: Final = "20"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True, help="of the operator")
    parser.add_argument("--staff-url", required=True, help="of who opens the sessions that are ended")
    parser.add_argument("--staff", required=True)
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--stop", type=Path, required=True)
    args = parser.parse_args()
    die_with_parent.enable()
    os.environ["RTA_REDIS__URL"] = args.url
    record = Recorder(args.notes)
    sessions = rta_writers.SessionClient(args.staff_url, principal=args.staff, timeout_s=float(ANSWER_TIMEOUT_S))
    run("", "sessions", "list", "--limit", LISTED)  # what is imported late is imported now
    number = 0
    while not args.stop.exists():
        identity = f"{args.staff}-{number}"
        number += 1
        try:
            sessions.open(identity, stream=f"{args.staff}.a")
            command(record, "operator list", "sessions", "list", "--limit", LISTED)
            command(
                record, "operator abandon", "sessions", "abandon", identity, "--yes", "--timeout-s", ANSWER_TIMEOUT_S
            )
        except (errors.RtaError, redis.exceptions.RedisError, OSError):
            pass  # noted, or the fate of an open, which the victim measures
        time.sleep(PAUSE_S)
    return 0


def command(record: Recorder, what: str, *words: str) -> None:
    with record.timed(what):
        result = run("", *words)
        if result.code:
            raise OSError(f"exit code {result.code}: {result.err}")


if __name__ == "__main__":
    sys.exit(main())
