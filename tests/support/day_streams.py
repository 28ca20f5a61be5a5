"""Days of a source: streams, lists and index entries that tests fill and look at."""

from typing import Any

import redis

from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import days as sections_days
from rta_wire import day_streams, keys

NAMES = keys.Keys()
TODAY = 20_500
TODAY_MS = TODAY * day_streams.DAY_MS


class Clock:
    """A clock that a test sets."""

    def __init__(self, now_ms: int = TODAY_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def config(**changes: Any) -> settings.Settings:
    """Settings under which every source has a stream per day, and days are kept for two."""
    return settings.Settings(days=sections_days.DaysSettings(**{"partition": "day", "keep_days": 2, **changes}))


def fill(client: redis.Redis, day: day_streams.Day, *, last_ms: int | None = None, cold: bool = False) -> None:
    """A day with three entries at its end, or at `last_ms`, that is in every list that names streams."""
    end_ms = day.start_ms + day_streams.DAY_MS - 1 if last_ms is None else last_ms
    for key in [keys.stream(day.stream), *([keys.cold_stream(day.stream)] if cold else [])]:
        for number in range(3):
            client.execute_command("XADD", key, f"{end_ms}-{number + 1}", "id", "1", "data", "x")
    if cold:
        client.hset(NAMES.cold_index(), day.stream, "{}")
    client.zadd(NAMES.days(day.source), {day.stream: day.number})
    client.expire(NAMES.days(day.source), 3600)
    client.sadd(keys.STREAMS, day.stream)
    client.zadd(NAMES.streams_used(), {day.stream: day.start_ms})


def indexed_streams(client: redis.Redis, source: str = "rig") -> list[str]:
    """The streams in the index of a source, oldest first."""
    names: Any = client.zrange(NAMES.days(source), 0, -1)
    return [name.decode() if isinstance(name, bytes) else name for name in names]


def listed_streams(client: redis.Redis) -> set[str]:
    """The streams in the list that readers see."""
    names: Any = client.smembers(keys.STREAMS)
    return {name.decode() for name in names}


def traces(client: redis.Redis, day: day_streams.Day) -> set[str]:
    """Where a day is in Redis. That the index keeps the newest day does not count."""
    name = day.stream
    is_in = {
        "stream": client.exists(keys.stream(name)),
        "cold": client.exists(keys.cold_stream(name)),
        "cold index": client.hexists(NAMES.cold_index(), name),
        "streams": client.sismember(keys.STREAMS, name),
        "used": client.zscore(NAMES.streams_used(), name) is not None,
        "index": name in indexed_streams(client, day.source)[:-1],
    }
    return {where for where, is_there in is_in.items() if is_there}


EVERYWHERE = {"stream", "streams", "used", "index"}
EVERYWHERE_COLD = {*EVERYWHERE, "cold", "cold index"}
