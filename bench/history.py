"""How many minutes a stream holds with the default settings: the table of docs/retention.md, seen.

Two hours of a stream are appended with entry ids of the time at which they would have come, then trimmed once.
"""

import functools
import itertools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import anyio
import numpy as np

from bench import cold, parts
from bench.measure import Case, constant
from rta_supervisor.retention.trimmer import Trimmer
from rta_supervisor.settings import settings
from rta_supervisor.transport import function_loader
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys
from rta_wire.codec import encode
from rta_writers.connection import redis_client

MINUTES = 100
QUICK_MINUTES = 2
TIME_RANGE_BYTES = 40
SEED = 5


class Recorder(NamedTuple):
    """Who writes to the stream. Time ranges are entries too."""

    channels: int
    hz: int
    bursts_per_s: int
    ranges_per_s: int

    def second(self) -> list[bytes]:
        """The entries of one second, of doubles that LZ4 can't shrink."""
        ticks = self.hz // self.bursts_per_s
        channels = np.tile(np.arange(self.channels), ticks)
        times = np.repeat(np.arange(ticks) * (10**9 // self.hz), self.channels)
        values = np.random.default_rng(SEED).random(len(channels))
        bursts = [burst.data for burst in encode.Encoder().rows(channels, times, values)]
        return bursts * self.bursts_per_s + [b"r" * TIME_RANGE_BYTES] * self.ranges_per_s


WRITERS = {
    "BurstWriter, 50 channels at 100 Hz, its timer": (Recorder(50, 100, 10, 10), 83),
    "BurstWriter, 50 channels at 100 Hz, flush at each tick": (Recorder(50, 100, 100, 10), 83),
    "BurstWriter, 50 channels at 100 Hz, sent once a second": (Recorder(50, 100, 1, 1), 83),
    "BurstWriter, 500 channels at 100 Hz, its timer": (Recorder(500, 100, 10, 10), 19),
    "Spark, 100 channels at 1 kHz, trigger 100 ms": (Recorder(100, 1000, 20, 10), 10.5),
    "Spark, 100 channels at 1 kHz, trigger 1 s": (Recorder(100, 1000, 2, 1), 11),
}
"""And the minutes that the page says."""


def fill(recorder: Recorder, minutes: int) -> None:
    """Bursts and time ranges, evenly over the minutes before now."""
    entries = recorder.second()
    now_ms = time.time_ns() // 1_000_000
    seconds = range(now_ms - minutes * 60_000, now_ms, 1000)
    ids = (f"{second_ms + n * 1000 // len(entries)}-*" for second_ms in seconds for n in range(len(entries)))
    added = zip(ids, itertools.cycle(entries), strict=False)
    with redis_client.connect(parts.redis_url()) as client:
        client.flushall()
        for some in iter(lambda: list(itertools.islice(added, 2000)), []):
            with client.pipeline(transaction=False) as pipe:
                for entry_id, data in some:
                    pipe.execute_command("XADD", keys.stream(parts.STREAM), entry_id, "id", "1", "data", data)
                pipe.execute()
        client.zadd(keys.Keys().streams_used(), {parts.STREAM: now_ms})
        client.sadd("streams", parts.STREAM)


async def trim() -> None:
    config = settings.Settings(redis=settings.RedisSettings(url=parts.redis_url()))
    link = Link(config.redis)
    await function_loader.load(link)
    while (await Trimmer(link, config).sweep()).trimmed:
        pass
    await link.close()


def kept_minutes(recorder: Recorder, minutes: int) -> float:
    cold.quiet()
    fill(recorder, minutes)
    anyio.run(trim)
    with redis_client.connect(parts.redis_url()) as client:
        found: Any = client.xinfo_stream(keys.stream(parts.STREAM))
    first_ms, last_ms = (entry_ids.ms_of(found[name][0].decode()) for name in ("first-entry", "last-entry"))
    return (last_ms - first_ms) / 60_000


def bench_minutes(quick: bool) -> Iterator[Case]:
    """What a stream reaches back to, in minutes of its own time."""
    minutes = QUICK_MINUTES if quick else MINUTES
    for name, (recorder, expected) in WRITERS.items():
        figure = functools.cache(functools.partial(kept_minutes, recorder, minutes))
        yield Case(f"history of a stream: {name}", "min", figure, constant(min(expected, minutes)), 0.95)
