"""Rules that every test's data has to follow, checked after it."""

import re
from typing import Any

import redis

MAY_LIVE_FOR_EVER = re.compile(
    r"streams|lastStreamSessionId|stream:.+|cold:.+"  # the protocol's own
    r"|rtas[^:]*:(ctl:.+|req:.+|seen:.+|idx|dlq|nodes|streams|unarchived|cold|coldpause)"  # ours: bounded in size
    r"|rtas[^:]*:(dlqof:.+|publishagain)"
)


def keys_without_ttl(client: "redis.Redis") -> list[str]:
    """Keys that would outlive their purpose."""
    names = [name.decode() for name in client.scan_iter(count=1000)]
    answers: Any = [client.ttl(name) for name in names]
    return [
        name for name, ttl in zip(names, answers, strict=True) if ttl == -1 and not MAY_LIVE_FOR_EVER.fullmatch(name)
    ]
