"""The counter of stream session ids. It is a key of the RTA protocol that other programs may write too."""

import re
from typing import Final

import redis.exceptions

from rta_supervisor.transport import failures
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys

LAST_ID_MAX: Final = 2**62
"""From here on there is little room: Redis refuses to count past 2**63."""

QUOTED_MAX_BYTES: Final = 40
_NUMBER: Final = re.compile(rb"0|[1-9][0-9]{0,18}")
"""What INCRBY takes for a number that is not negative."""


async def read_last_id(link: Link) -> int:
    """The highest id that was given to a session; 0 for none. Raises `IdCounterUnusable` for what can't be counted."""
    try:
        raw = await link.do("GET", keys.LAST_STREAM_SESSION_ID)
    except redis.exceptions.ResponseError as error:
        if not failures.is_key_specific(error):
            raise
        raise errors.IdCounterUnusable(key=keys.LAST_STREAM_SESSION_ID, what="is no string") from error
    return parse_last_id(raw)


def parse_last_id(raw: bytes | None) -> int:
    """The value of the counter. Raises `IdCounterUnusable` for what can't be counted."""
    if raw is None:
        return 0
    if not _NUMBER.fullmatch(raw):
        value = raw[:QUOTED_MAX_BYTES].decode(errors="backslashreplace")
        cut = "…" if len(raw) > QUOTED_MAX_BYTES else ""
        what = f"holds {value + cut!r}, which is no number of 0 or more"
    elif int(raw) > LAST_ID_MAX:
        what = f"holds {int(raw)}, after which there are no ids left"
    else:
        return int(raw)
    raise errors.IdCounterUnusable(key=keys.LAST_STREAM_SESSION_ID, what=what)
