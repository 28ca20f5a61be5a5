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
    """A closed session in the list of those that the archive does not have."""
    session = sessions.open(identity, stream="rig")
    write(client, session, bursts)
    session.close()
    wait_until(
        lambda: identity in [unarchived.identity for unarchived in waiting(client)], what=f"{identity} on the list"
    )
    return session


def state(client: redis.Redis, identity: str = "run-1") -> dict[str, str]:
    """The folded state of a session."""
    fields: Any = client.hgetall(NAMES.session_state(identity))
    return {name.decode(): value.decode() for name, value in fields.items()}


def archive(url: str, path: Path, *arguments: str) -> commands.CommandResult:
    return commands.run(url, "archive", "--path", str(path), *arguments)
