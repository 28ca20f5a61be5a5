"""Days of a source as tests make them and look at them."""

from typing import Any

import redis

from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import days as sections_days
from rta_wire import day_streams, keys

NAMES = keys.Keys()
TODAY = 20_500
TODAY_MS = TODAY * day_streams.DAY_MS


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, now_ms: int = TODAY_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def config(**changes: Any) -> settings.Settings:
    return settings.Settings(days=sections_days.DaysSettings(**{"partition": "day", "keep_days": 2, **changes}))


def fill(client: redis.Redis, day: day_streams.Day, *, last_ms: int | None = None, cold: bool = False) -> None:
    """A day with three entries, the last of them at its end, known to everybody who keeps a list."""
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


def listed(client: redis.Redis, source: str = "rig") -> list[str]:
    """What the index of a source holds, oldest first."""
    found: Any = client.zrange(NAMES.days(source), 0, -1)
    return [raw.decode() if isinstance(raw, bytes) else raw for raw in found]


def streams(client: redis.Redis) -> set[str]:
    """The names that readers see."""
    found: Any = client.smembers(keys.STREAMS)
    return {raw.decode() for raw in found}


def traces(client: redis.Redis, day: day_streams.Day) -> set[str]:
    """Where a day is to be found still. The index keeps the newest, which is no trace."""
    name = day.stream
    found = {
        "stream": client.exists(keys.stream(name)),
        "cold": client.exists(keys.cold_stream(name)),
        "cold index": client.hexists(NAMES.cold_index(), name),
        "streams": client.sismember(keys.STREAMS, name),
        "used": client.zscore(NAMES.streams_used(), name) is not None,
        "index": name in listed(client, day.source)[:-1],
    }
    return {where for where, is_there in found.items() if is_there}


EVERYWHERE = {"stream", "streams", "used", "index"}
EVERYWHERE_COLD = {*EVERYWHERE, "cold", "cold index"}
