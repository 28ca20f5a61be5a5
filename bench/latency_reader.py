"""python -m bench.latency_reader URL STREAM HASH: reads a stream until a line comes, then prints how late all was.

Milliseconds as JSON. `seen`: from the time of a sample, or of the field `t`, to its arrival here. `hash_behind` and
`range_behind`: from there until the hash of the session, and a time range in the stream, include it.
"""

import json
import select
import sys
import time
from typing import Any

import redis

from rta_wire import keys
from rta_wire.codec import decode
from rta_writers.connection import redis_client

BLOCK_MS = 2
"""How often the hash is looked at while nothing comes."""


class Watcher:
    """What has arrived, and when."""

    def __init__(self) -> None:
        self.arrived_ns: dict[int, int] = {}
        self.shown: list[tuple[int, int]] = []
        """Ends of time ranges in the stream, and when they came."""
        self.hashed: list[tuple[int, int]] = []
        """The same of the hash."""

    def take(self, fields: dict[bytes, bytes], now_ns: int) -> None:
        if b"t" in fields:
            self.arrived_ns[int(fields[b"t"])] = now_ns
            return
        first = decode.burst(fields[b"data"]).data[0]
        if first.HasField("time_range"):
            self.shown.append((first.time_range.end_time, now_ns))
        for some in decode.columns([fields[b"data"]]).samples.values():
            for time_ns in set(some.times_ns.tolist()):
                self.arrived_ns[time_ns] = now_ns

    def take_hash(self, end: bytes | None, now_ns: int) -> None:
        if end is not None and (not self.hashed or self.hashed[-1][0] != int(end)):
            self.hashed.append((int(end), now_ns))

    def report(self) -> dict[str, list[float]]:
        """All of it in milliseconds, by the names that the docstring of the module has."""
        seen = [(came_ns - made_ns) / 1e6 for made_ns, came_ns in self.arrived_ns.items()]
        return {
            "seen": seen,
            "hash_behind": _behind_ms(self.arrived_ns, self.hashed),
            "range_behind": _behind_ms(self.arrived_ns, self.shown),
        }


def _behind_ms(arrived_ns: dict[int, int], ends: list[tuple[int, int]]) -> list[float]:
    """For each sample how long after its arrival an end was known that is not before it."""
    behind: list[float] = []
    position = 0
    for made_ns in sorted(arrived_ns):
        while position < len(ends) and ends[position][0] < made_ns:
            position += 1
        if position < len(ends):
            behind.append(max(0.0, (ends[position][1] - arrived_ns[made_ns]) / 1e6))
    return behind


def main() -> None:
    _, url, stream, session_hash = sys.argv
    watcher = Watcher()
    with redis_client.connect(url) as client:
        last_id = _last_id(client, stream)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not select.select([sys.stdin], [], [], 0)[0]:
            pages: Any = client.xread({stream: last_id}, block=BLOCK_MS)
            now_ns = time.time_ns()
            for entry_id, fields in pages.get(stream.encode(), ()):
                watcher.take(fields, now_ns)
                last_id = entry_id
            end: Any = client.hget(session_hash, keys.T_END)
            watcher.take_hash(end, time.time_ns())
    sys.stdout.write(json.dumps(watcher.report()))


def _last_id(client: redis.Redis, stream: str) -> bytes | str:
    newest: Any = client.xrevrange(stream, count=1)
    return newest[0][0] if newest else "0-0"


if __name__ == "__main__":
    main()
