"""Section `[gateway]`: where viewers are served, who may look at what, and how much each may take."""

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from rta_supervisor.settings.sections import checks
from rta_supervisor.settings.sections.servers import http

TOKENS_CREDENTIAL: Final = "gateway-tokens"
"""The systemd credential that holds tokens where `token_file` is empty."""

POSITIVE: Final = (
    *http.POSITIVE,
    *("viewers", "token_viewers", "address_viewers", "queue_bytes", "queued_bytes", "stuck_s"),
    *("request_timeout_s", "query_chars", "query_depth", "cache_bytes"),
)

QUEUE_MIN_BYTES: Final = 64 * 1024
"""A viewer's queue has to hold a frame of usual size."""

_ORIGIN: Final = re.compile(r"https?://[^/\s]+")


class GatewaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Address, access and limits of the gateway."""

    host: str = "127.0.0.1"
    port: int = 8640
    label: str = "RTA gateway"
    description: str = ""
    host_names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    token_file: str = ""
    jwks_file: str = ""
    jwt_issuer: str = ""
    jwt_audience: str = ""
    jwt_claim: str = "rta_streams"
    cert_file: str = ""
    key_file: str = ""
    connections: int = 256
    connections_per_address: int = 64
    header_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    idle_timeout_s: int = 5
    viewers: int = 1000
    token_viewers: int = 500
    address_viewers: int = 250
    queue_bytes: int = 4 * 1024 * 1024
    queued_bytes: int = 512 * 1024 * 1024
    stuck_s: float = 300.0
    backfill_s: float = 60.0
    request_timeout_s: float = 60.0
    query_chars: int = 16_384
    query_depth: int = 32
    cache_path: str = ""
    cache_bytes: int = 1024 * 1024 * 1024
    addresses: tuple[str, ...] = ("http://127.0.0.1:8640",)

    @property
    def needs_token(self) -> bool:
        """Whether who asks has to send a token, by the settings and systemd's credentials."""
        return bool(self.jwks_file) or self.token_path is not None

    @property
    def cache_folder(self) -> Path | None:
        """Where time indexes are kept for the next start; None: nowhere. systemd makes a folder for it."""
        path = self.cache_path or os.environ.get("CACHE_DIRECTORY", "").partition(":")[0]
        return Path(path) if path else None

    @property
    def token_path(self) -> Path | None:
        """The file with the tokens: as configured, else the credential, where there is one."""
        if self.token_file:
            return Path(os.environ.get("CREDENTIALS_DIRECTORY", ""), self.token_file)
        if directory := os.environ.get("CREDENTIALS_DIRECTORY"):
            path = Path(directory, TOKENS_CREDENTIAL)
            return path if path.exists() else None
        return None

    def check(self) -> None:
        is_exposed = not http.is_loopback(self.host) and not self.needs_token
        exposed = f"{self.host!r} can be reached from elsewhere. Set gateway.token_file or gateway.jwks_file, or listen"
        unnamed = (
            "a JWT of any issuer would be accepted. Name the issuer, and the audience that stands for this gateway"
        )
        bad_origins = [origin for origin in self.origins if origin != "*" and _ORIGIN.fullmatch(origin) is None]
        bad_addresses = [address for address in self.addresses if not _is_address(address)]
        small = f"it is below {QUEUE_MIN_BYTES}, the size of a usual frame"
        checks.refuse_first(
            [
                ("gateway.port", not 0 <= self.port <= http.PORT_MAX, f"it is not between 0 and {http.PORT_MAX}"),
                *((f"gateway.{name}", getattr(self, name) <= 0, checks.NOT_ABOVE_0) for name in POSITIVE),
                ("gateway.backfill_s", self.backfill_s < 0, checks.BELOW_0),
                ("gateway.queue_bytes", self.queue_bytes < QUEUE_MIN_BYTES, small),
                (
                    "gateway.host",
                    not self.host or not http.is_host_name(self.host),
                    "it is no host name and no address",
                ),
                ("gateway.host", is_exposed, f"{exposed} on 127.0.0.1"),
                ("gateway.jwt_issuer", bool(self.jwks_file) and not self.jwt_issuer, unnamed),
                ("gateway.jwt_audience", bool(self.jwks_file) and not self.jwt_audience, unnamed),
                ("gateway.key_file", bool(self.cert_file) != bool(self.key_file), "TLS needs cert_file and key_file"),
                (
                    "gateway.origins",
                    bool(bad_origins),
                    f"{bad_origins} is not of the form https://host:port, and not *",
                ),
                ("gateway.addresses", bool(bad_addresses), f"{bad_addresses} is not of the form http://host:port"),
            ]
        )


def _is_address(address: str) -> bool:
    """Whether an address is the base URL of a gateway."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
