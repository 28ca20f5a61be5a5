"""Finds messages that were evicted from a control stream before anybody read them: Redis skips them silently."""

import msgspec
import redis.exceptions

from rta_supervisor.link import Link, pairs
from rta_wire import keys


class Gap(msgspec.Struct, frozen=True):
    """So many messages are gone that no supervisor has seen."""

    count: int
    last_delivered_id: str
    entries_read: int


async def evicted_unread(link: Link, key: str) -> Gap | None:
    """Of all that was ever added, what was neither read nor stands there to be read."""
    try:
        stream_answer, groups = await link.transaction(
            [("XINFO", "STREAM", key), ("XINFO", "GROUPS", key)],
        )
    except redis.exceptions.ResponseError as error:
        if "no such key" in str(error):
            return None
        raise
    stream = pairs(stream_answer)
    group = next((found for found in map(pairs, groups) if found[b"name"].decode() == keys.CONTROL_GROUP), None)
    if group is None or group[b"entries-read"] is None:
        return None
    return count_gap(
        added=int(stream[b"entries-added"]),
        present=int(stream[b"length"]),
        pending=int(group[b"pending"]),
        read=int(group[b"entries-read"]),
        last_delivered_id=group[b"last-delivered-id"].decode(),
    )


def count_gap(*, added: int, present: int, pending: int, read: int, last_delivered_id: str) -> Gap | None:
    """What is handled is deleted, so of what is present the pending ones were read and all others were not.

    Pending ones may be evicted too, which makes the count too low by as many and never too high.
    """
    unread = added - read
    missing = unread - max(0, present - min(pending, present))
    return Gap(missing, last_delivered_id, read) if missing > 0 else None
