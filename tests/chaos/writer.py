"""A program that writes stamped samples until it is told to stop, and notes what was acknowledged. To be killed.

It writes as a Spark task does: an epoch that was cut short is written again from its start, the same rows in the same
order. Notes are lines `A unit epoch seq count` (acknowledged), `E unit epoch` (epoch over) and `X unit epoch reason`
(refused). With `plain` it writes as a program without our writers does: XADD and redis-py's own retries.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Final

import redis

import rta_writers
from rta_wire import errors, keys
from rta_wire.codec import encode
from tests.chaos import die_with_parent, stamps

PAUSE_S: Final = 0.05
GONE_FOR_GOOD: Final = 3


class Notes:
    """The log of one unit. Lines are short, so that those of twins do not mix."""

    def __init__(self, path: Path, unit: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._path = path
        self._unit = unit

    def note(self, kind: str, *fields: object) -> None:
        os.write(self._file, (" ".join(map(str, (kind, self._unit, *fields))) + "\n").encode())

    def next_epoch(self) -> int:
        lines = [line.split() for line in self._path.read_text().splitlines() if line.startswith("E ")]
        return max((int(fields[2]) + 1 for fields in lines), default=0)


class Once:
    """Through our writer: what was flushed is acknowledged."""

    def __init__(self, options: dict[str, str], unit: int, epoch: int) -> None:
        self._writer = rta_writers.BurstWriter(options, unit=f"unit-{unit}", epoch=epoch)

    def write(self, codes: stamps.Codes) -> None:
        self._writer.samples(stamps.channels(codes), stamps.times_ns(codes), stamps.values(codes))
        self._writer.flush()

    def end(self) -> None:
        self._writer.close()


class Plain:
    """XADD in a pipeline, as a client of redis-py has it by default."""

    def __init__(self, options: dict[str, str], unit: int, epoch: int) -> None:
        del unit, epoch
        self._client = redis.Redis.from_url(options["redisUrl"])
        self._stream = keys.stream(options["stream"])
        self._number = options["streamSessionId"]

    def write(self, codes: stamps.Codes) -> None:
        pipe = self._client.pipeline()
        columns = (stamps.channels(codes).astype("uint32"), stamps.times_ns(codes), stamps.values(codes))
        for burst in encode.encode_doubles(*columns):
            pipe.xadd(self._stream, {keys.ENTRY_ID: self._number, keys.ENTRY_DATA: burst.data})
        pipe.execute()

    def end(self) -> None:
        self._client.close()


def write_epoch(args: argparse.Namespace, notes: Notes, options: dict[str, str], epoch: int) -> None:
    writer = (Plain if args.plain else Once)(options, args.unit, epoch)
    for seq in range(args.groups):
        codes = stamps.codes(args.unit, epoch, seq, stamps.group_size(args.seed, args.unit, epoch, seq, args.largest))
        writer.write(codes)
        notes.note("A", epoch, seq, len(codes))
        time.sleep(args.pause_s)
    writer.end()
    notes.note("E", epoch)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("options", nargs="+", help="name=value, as for a Spark writer")
    parser.add_argument("--unit", type=int, required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--stop", type=Path, required=True, help="a file that says when it exists: enough")
    parser.add_argument("--epochs", type=int, default=1 << 12, help="the most epochs to write")
    parser.add_argument("--groups", type=int, default=20, help="groups of an epoch")
    parser.add_argument("--largest", type=int, default=4000, help="samples of the largest group")
    parser.add_argument("--pause-s", type=float, default=0.0)
    parser.add_argument("--plain", action="store_true")
    args = parser.parse_args()
    die_with_parent.enable()
    options = dict(word.split("=", 1) for word in args.options)
    notes = Notes(args.notes, args.unit)
    while not args.stop.exists() and (epoch := notes.next_epoch()) < args.epochs:
        try:
            write_epoch(args, notes, options, epoch)
        except errors.SessionClosed:
            notes.note("X", epoch, "SessionClosed")
            return GONE_FOR_GOOD
        except (errors.RtaError, redis.exceptions.RedisError) as error:
            # As Spark does: the same epoch again. What stands there already is not written twice.
            notes.note("X", epoch, type(error).__name__)
            print(f"epoch {epoch}: {error}", file=sys.stderr, flush=True)
            time.sleep(PAUSE_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
