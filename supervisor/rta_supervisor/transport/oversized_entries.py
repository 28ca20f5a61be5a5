"""Removes entries of very many fields or bytes from the ends of a stream: no program of the RTA protocol makes such.

Redis replies with the first and the last entry of a stream whenever it is asked where the stream ends: one entry of
500,000 fields would keep it busy for 0.1 s each time, and each open of a session would carry all bytes of both. Where a
stream ends is read by many; whoever serves the stream for others calls this.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from rta_supervisor.diagnostics import log
from rta_supervisor.transport import replies
from rta_supervisor.transport.link import Link
from rta_wire import limits

FIELDS_MAX: Final = 1000
"""Fields that an entry may have. Entries of the protocol have a few."""

BYTES_MAX: Final = 2 * limits.BURST_MAX_BYTES
"""Bytes that an entry may have: more than a burst that nothing could be compressed of."""

MAX_ROUNDS: Final = 10
"""How often the ends of a stream are looked at in one call: what is left is removed by the next one."""


async def remove(link: Link, key: str, info: dict[bytes, Any] | None) -> None:
    """Remove such entries. `info`: the XINFO of the stream as it was read just now."""
    for _ in range(MAX_ROUNDS):
        entries = list(_oversized(info or {}))
        if not entries:
            return
        ids = list(dict.fromkeys(entry.id for entry in entries))
        await link.do("XDEL", key, *ids)
        log.get().warning(
            "entries_removed",
            key=key,
            entries=ids,
            fields=max(entry.fields for entry in entries),
            limit=FIELDS_MAX,
            size_bytes=max(entry.size_bytes for entry in entries),
            limit_bytes=BYTES_MAX,
        )
        info = await replies.read_stream_info(link, key)


class _OversizedEntry(NamedTuple):
    id: str
    fields: int
    size_bytes: int


def _oversized(info: dict[bytes, Any]) -> Iterator[_OversizedEntry]:
    """The first and the last entry, each if it has too many fields or bytes."""
    for entry in (info.get(b"first-entry"), info.get(b"last-entry")):
        if entry:
            fields, size_bytes = len(entry[1]) // 2, sum(map(len, entry[1]))
            if fields > FIELDS_MAX or size_bytes > BYTES_MAX:
                yield _OversizedEntry(entry[0].decode(), fields, size_bytes)
