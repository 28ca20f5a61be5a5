"""Section `[http]`: where health, metrics and the page are served, and who may see them."""

import ipaddress
import re
from typing import Final

import msgspec

from rta_supervisor.settings.sections import checks

PORT_MAX: Final = 65_535
POSITIVE: Final = ("connections", "connections_per_address", "header_timeout_s", "body_timeout_s", "idle_timeout_s")
TOKEN_MIN_CHARS: Final = 16
"""On an address that can be reached from elsewhere. Shorter ones can be guessed."""

MAKE_TOKEN: Final = "Make one with: openssl rand -hex 24"  # noqa: S105 - a command, not a secret
_SENDABLE: Final = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
"""A token that a header of HTTP holds unchanged."""


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
    viewer_url: str = ""

    def check(self) -> None:
        is_open = bool(self.host) and not is_loopback(self.host)
        is_short = is_open and 0 < len(self.token) < TOKEN_MIN_CHARS
        short = f"it has less than {TOKEN_MIN_CHARS} characters, and {self.host!r} can be reached from elsewhere"
        exposed = f"{self.host!r} can be reached from elsewhere. Set http.token, or listen on 127.0.0.1"
        unsendable = f"it holds characters that can't stand in a header of HTTP. {MAKE_TOKEN}"
        checks.refuse_first(
            [
                ("http.port", not 0 <= self.port <= PORT_MAX, f"it is not between 0 and {PORT_MAX}"),
                *((f"http.{name}", getattr(self, name) <= 0, checks.NOT_ABOVE_0) for name in POSITIVE),
                ("http.host", not is_host_name(self.host), "it is no host name and no address"),
                ("http.host", is_open and not self.token, f"{exposed}. {MAKE_TOKEN}"),
                ("http.viewer_url", not _is_viewer_url(self.viewer_url), "it is not of the form https://host:port/"),
                ("http.token", is_short, f"{short}. {MAKE_TOKEN}"),
                ("http.token", _SENDABLE.fullmatch(self.token) is None, unsendable),
            ]
        )


def _is_viewer_url(url: str) -> bool:
    return not url or re.fullmatch(r"https?://[^\s/@]+(/\S*)?", url) is not None


def is_host_name(host: str) -> bool:
    """Whether a host can be looked up, found or not."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
