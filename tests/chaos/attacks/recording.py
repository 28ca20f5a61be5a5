"""What programs beside an attack note: each step with the time that it took, in files that the harness reads."""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import redis

from rta_wire import errors

QUOTED_MAX_CHARS: Final = 200


class Step(msgspec.Struct, frozen=True):
    """One thing that was done, and how it went."""

    what: str
    at_s: float
    """When it began, on the monotonic clock of the machine."""

    ms: float
    error: str = ""
    detail: str = ""


class Recorder:
    """Appends steps to a file. Lines are short, so that those of several threads do not mix."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, step: Step) -> None:
        os.write(self._file, msgspec.json.encode(step) + b"\n")

    @contextlib.contextmanager
    def timed(self, what: str, detail: str = "") -> Iterator[None]:
        """Note a step. What our clients and Redis raise is noted and raised again."""
        began_s = time.monotonic()
        error = ""
        try:
            yield
        except (errors.RtaError, redis.exceptions.RedisError, OSError) as raised:
            error = f"{type(raised).__name__}: {raised}"[:QUOTED_MAX_CHARS]
            raise
        finally:
            self.note(Step(what, began_s, (time.monotonic() - began_s) * 1000, error, detail))


def read(paths: Iterable[Path]) -> list[Step]:
    # The last line may be half written.
    texts = [path.read_bytes().rpartition(b"\n")[0] for path in paths if path.exists()]
    lines = [line for text in texts for line in text.splitlines()]
    return [msgspec.json.decode(line, type=Step) for line in lines]


def percentile(values: Sequence[float], share: float) -> float:
    """The value that a share of all values does not exceed; 0 where there is none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
