"""Open connections by the address that they come from: whether there is room for one more, and which of them has to
make room. Pure.
"""

import ipaddress
from typing import Final, Generic, TypeVar

IPV6_PREFIX: Final = 64
"""One host of IPv6 has this network to itself, and may use any address in it."""

CONNECTIONS: Final = "connections"
PER_ADDRESS: Final = "connections_per_address"

C = TypeVar("C")


def client_address(host: str) -> str:
    """The address under which the connections of a client are counted."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))


class ConnectionTable(Generic[C]):
    """All open connections. One that waits for its client, and not for a response of ours, may be closed for others."""

    def __init__(self, *, max_connections: int, max_per_address: int) -> None:
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        self._by_address: dict[str, dict[C, bool]] = {}
        """Oldest first, each with whether it waits for its client."""

    def __len__(self) -> int:
        return sum(map(len, self._by_address.values()))

    def add(self, address: str, connection: C) -> None:
        self._by_address.setdefault(address, {})[connection] = True

    def set_waiting(self, address: str, connection: C, *, is_waiting: bool) -> None:
        if connection in self._by_address.get(address, {}):
            self._by_address[address][connection] = is_waiting

    def remove(self, address: str, connection: C) -> None:
        """Forget a connection, if it is there."""
        connections = self._by_address.get(address, {})
        connections.pop(connection, None)
        if not connections:
            self._by_address.pop(address, None)

    def reached(self, address: str, max_connections: int | None = None) -> str | None:
        """The setting, without its section, that leaves no room for another connection of an address; None: there is
        room. `max_connections`: how many there may be where files are left for no more."""
        if len(self._by_address.get(address, {})) >= self._max_per_address:
            return PER_ADDRESS
        highest = self._max_connections if max_connections is None else min(max_connections, self._max_connections)
        return CONNECTIONS if len(self) >= highest else None

    def oldest_waiting(self, address: str | None = None) -> C | None:
        """The oldest connection that waits for its client: of one address, or of the one with the most that wait."""
        waiting = {
            each: [connection for connection, is_waiting in connections.items() if is_waiting]
            for each, connections in self._by_address.items()
            if address in (None, each)
        }
        most: list[C] = max(waiting.values(), key=len, default=[])
        return most[0] if most else None
