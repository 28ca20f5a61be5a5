"""Reads the sessions that the archive does not have yet."""

from typing import Any

import redis

from rta_supervisor.retention.unarchived_session import UnarchivedSession
from rta_wire import keys

NAMES = keys.Keys()


def waiting(client: redis.Redis) -> list[UnarchivedSession]:
    members: Any = client.zrange(NAMES.unarchived(), 0, -1)
    return [UnarchivedSession.parse(raw) for raw in members]
