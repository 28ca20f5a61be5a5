"""Section `[http]`: where health, metrics and the page are served, and who may see them."""

import ipaddress
from typing import Final

import msgspec

from rta_supervisor.settings.sections import checks

PORT_MAX: Final = 65_535


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Address and token of the HTTP server. An empty host: none is started."""

    host: str = "127.0.0.1"
    port: int = 8630
    token: str = ""

    def check(self) -> None:
        is_exposed = bool(self.host) and not _is_loopback(self.host) and not self.token
        exposed = f"{self.host!r} can be reached from elsewhere. Set http.token, or listen on 127.0.0.1"
        checks.refuse_first(
            [
                ("http.port", not 0 <= self.port <= PORT_MAX, f"it is not between 0 and {PORT_MAX}"),
                ("http.host", is_exposed, exposed),
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
