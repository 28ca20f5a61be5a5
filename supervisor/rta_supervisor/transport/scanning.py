"""Reads collections that clients can grow in parts, so that no command keeps Redis from serving others for long.

An element that is there from beginning to end is found; one that comes or goes meanwhile may or may not be.
"""

import enum
from collections.abc import AsyncIterator, Sequence
from typing import Final

import redis.exceptions

from rta_supervisor.diagnostics import log
from rta_supervisor.transport import failures
from rta_supervisor.transport.link import Link

SCAN_COUNT: Final = 500
"""Elements in one reply, about: a few hundred microseconds of the server. Small collections come as a whole."""


class Collection(enum.Enum):
    """A type of key: the command that reads a part of it, and the one that reads all of it."""

    HASH = ("HSCAN", ("HGETALL",))
    SET = ("SSCAN", ("SMEMBERS",))
    SORTED_SET = ("ZSCAN", ("ZRANGE", 0, -1, "WITHSCORES"))


async def scan(link: Link, kind: Collection, key: str) -> AsyncIterator[list[bytes]]:
    """The elements of a collection, page by page. A page of a hash or a sorted set has names and values in turn.

    An element may come twice. Where an older ACL does not allow to read a part, all elements come in one page.
    """
    cursor = b"0"
    while True:
        [reply] = await link.try_all([(kind.value[0], key, cursor, "COUNT", SCAN_COUNT)])
        if isinstance(reply, redis.exceptions.NoPermissionError):
            note_missing_permission(kind.value[0])
            name, *arguments = kind.value[1]
            yield await link.do(name, key, *arguments)
            return
        if isinstance(reply, Exception):
            raise failures.classify(reply)
        cursor, page = reply
        if page:
            yield page
        if cursor == b"0":
            return


async def read_hash(link: Link, key: str) -> dict[bytes, bytes]:
    """All fields of a hash."""
    return _to_dict(await _read(link, Collection.HASH, key))


async def read_set(link: Link, key: str) -> list[bytes]:
    """All members of a set."""
    return list(dict.fromkeys(await _read(link, Collection.SET, key)))


async def read_sorted_set(link: Link, key: str) -> dict[bytes, bytes]:
    """All members of a sorted set with their scores, lowest first."""
    scores = _to_dict(await _read(link, Collection.SORTED_SET, key))
    return dict(sorted(scores.items(), key=lambda item: (float(item[1]), item[0])))


async def _read(link: Link, kind: Collection, key: str) -> list[bytes]:
    return [element async for page in scan(link, kind, key) for element in page]


def note_missing_permission(*names: str) -> None:
    """Log that the ACL file of the supervisor is an older one. What it lacks is done in an older way meanwhile."""
    log.get().warning("acl_outdated", missing=" ".join(f"+{name.lower()}" for name in names))


def _to_dict(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
