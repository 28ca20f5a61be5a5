"""Names of keys on all primaries, read once for all checks that need them, and not without end."""

from typing import Final

from rta_supervisor.transport.link import Link

SCAN_PAGE: Final = 1000


class KeyScan:
    """Scans at most `max_keys` keys: all of them would take long on a large server."""

    def __init__(self, link: Link, max_keys: int) -> None:
        self._link = link
        self._max_keys = max_keys
        self._names: list[str] | None = None
        self._is_all = False

    async def names(self) -> list[str]:
        if self._names is None:
            self._names, self._is_all = await self._scan()
        return self._names

    async def describe(self) -> str:
        """How many keys were looked at, for people."""
        count = len(await self.names())
        return f"looked at {count:,} keys" + ("" if self._is_all else ", not at all of them (--scan-keys)")

    async def _scan(self) -> tuple[list[str], bool]:
        names: list[str] = []
        for send in await self._link.topology.senders():
            cursor = b""
            while cursor != b"0":
                if len(names) >= self._max_keys:
                    return names, False
                [reply] = await send([("SCAN", cursor or b"0", "COUNT", SCAN_PAGE)])
                if isinstance(reply, Exception):
                    raise reply
                cursor, page = reply
                names += [raw.decode(errors="replace") for raw in page]
        return names, True
