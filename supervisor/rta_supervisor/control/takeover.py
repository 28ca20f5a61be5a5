"""Takes over the messages of a supervisor that shows no sign of life, and forgets it once nothing is left of it."""

from typing import Final

import redis.exceptions

from rta_supervisor.control import functions
from rta_supervisor.transport.failures import DataLost
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import keys, redis_errors

CLAIM_MAX: Final = 1000


async def take_over(link: Link, names: keys.Keys, key: str, consumer: str, *, lease_s: float) -> int:
    """Claim what dead readers of a control stream have left. Gives how many messages that were."""
    try:
        flats = await link.do("XINFO", "CONSUMERS", key, keys.CONTROL_GROUP)
    except redis.exceptions.ResponseError as error:
        if not redis_errors.is_no_such_key(error):
            raise
        # We had made the stream, so Redis lost it.
        raise DataLost(f"{key}: {error}") from error
    left = {facts[b"name"].decode(): facts[b"pending"] for facts in map(pairs_to_dict, flats)}
    left.pop(consumer, None)
    signs = await link.do_all([("EXISTS", names.alive(other)) for other in left])
    count = 0
    for (dead, pending), is_alive in zip(left.items(), signs, strict=True):
        if not is_alive and pending:
            count += await _claim(link, key, consumer, dead, lease_s)
        elif not is_alive:
            await link.do(*functions.remove_consumer(names, key, dead))
    return count


async def _claim(link: Link, key: str, consumer: str, dead: str, lease_s: float) -> int:
    """All messages of one. Those that another heir was faster with are young again, and stay where they are."""
    count = 0
    after = "-"
    while True:
        found = await link.do("XPENDING", key, keys.CONTROL_GROUP, after, "+", CLAIM_MAX, dead)
        ids = [one[0].decode() for one in found]
        if not ids:
            return count
        youngest_ms = int(lease_s * 1000 / 2)
        claimed = await link.do("XCLAIM", key, keys.CONTROL_GROUP, consumer, youngest_ms, *ids, "JUSTID")
        count += len(claimed)
        after = f"({ids[-1]}"
