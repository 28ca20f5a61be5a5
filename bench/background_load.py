"""Processes that compute at the lowest priority and share nothing but processors: the floor of what a duty in the
background costs others.

`python -m bench.background_load CORES` computes for that share of the time, until its standard input ends.
"""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from rta_supervisor.publish import worker

PERIOD_S = 0.02


@contextlib.contextmanager
def running(shares: Sequence[float]) -> Iterator[None]:
    """A process for each share of a core within the block."""
    processes = [
        subprocess.Popen([sys.executable, "-m", "bench.background_load", str(share)], stdin=subprocess.PIPE)
        for share in shares
    ]
    try:
        yield
    finally:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


def compute(share: float) -> None:
    """Take that share of a core, also where others delay it."""
    worker.lower_priority()
    stopping = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        stopping.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    started_s = time.monotonic()
    while not stopping.is_set():
        behind_s = (time.monotonic() - started_s) * share - time.process_time()
        if behind_s <= 0:
            stopping.wait(PERIOD_S)
            continue
        until_s = time.process_time() + min(behind_s, PERIOD_S)
        while time.process_time() < until_s:
            pass


if __name__ == "__main__":
    compute(float(sys.argv[1]))
