"""Sessions to archive, and runs of the archive command."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

import rta_writers
from rta_wire import keys
from tests.support import commands, supervisors
from tests.support.archives import waiting
from tests.support.control import write
from tests.support.waiting import wait_until

NAMES = keys.Keys()
REQUIRED = {"RTA_ARCHIVE__REQUIRED": "true", "RTA_ARCHIVE__PATH": "/nowhere"}


@contextlib.contextmanager
def sessions_of(url: str, **environment: str) -> Iterator[rta_writers.SessionClient]:
    with supervisors.running(url, environment):
        yield rta_writers.SessionClient(url, timeout_s=20)


def closed(
    client: redis.Redis,
    sessions: rta_writers.SessionClient,
    identity: str = "run-1",
    bursts: int = 5,
) -> rta_writers.Session:
    """A session that came and went, and is listed."""
    session = sessions.open(identity, stream="rig")
    write(client, session, bursts)
    session.close()
    wait_until(lambda: identity in [one.identity for one in waiting(client)], what=f"{identity} on the list")
    return session


def state(client: redis.Redis, identity: str = "run-1") -> dict[str, str]:
    found: Any = client.hgetall(NAMES.session_state(identity))
    return {name.decode(): value.decode() for name, value in found.items()}


def archive(url: str, path: Path, *words: str) -> commands.CommandResult:
    return commands.run(url, "archive", "--path", str(path), *words)
