"""Section `[http]`: where health, metrics and the page are served, and who may see them."""

import ipaddress
from typing import Final

import msgspec

from rta_supervisor.settings.sections import checks

PORT_MAX: Final = 65_535
POSITIVE: Final = (*("connections", "connections_per_address", "header_timeout_s", "body_timeout_s", "idle_timeout_s"),)


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Address, token and limits of the HTTP server. An empty host: none is started."""

    host: str = "127.0.0.1"
    port: int = 8630
    token: str = ""
    connections: int = 256
    connections_per_address: int = 64
    header_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    idle_timeout_s: int = 5

    def check(self) -> None:
        is_exposed = bool(self.host) and not _is_loopback(self.host) and not self.token
        exposed = f"{self.host!r} can be reached from elsewhere. Set http.token, or listen on 127.0.0.1"
        checks.refuse_first(
            [
                ("http.port", not 0 <= self.port <= PORT_MAX, f"it is not between 0 and {PORT_MAX}"),
                ("http.host", is_exposed, exposed),
                *((f"http.{name}", getattr(self, name) <= 0, checks.NOT_ABOVE_0) for name in POSITIVE),
            ]
        )


def _is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
