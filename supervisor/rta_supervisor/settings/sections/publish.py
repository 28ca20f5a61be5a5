"""Section `[publish]`: the Session Service and the Config Service that are told of every session."""

import importlib.util
import ipaddress
import os
import re
import ssl
from pathlib import Path
from typing import Final

import msgspec

from rta_supervisor.settings.sections import checks
from rta_wire import errors

EVERY_MAX_S: Final = 30.0
_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})")
_NOT_ABOVE_0: Final = ("every_s", "heartbeat_s", "timeout_s", "breaker_failures", "breaker_open_s")
_TOKEN: Final = re.compile(r"[!-~]*")


class PublishSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Addresses of both services, and how often and how they are called. Without an address nothing is published."""

    session_address: str = ""
    config_address: str = ""
    every_s: float = 5.0
    heartbeat_s: float = 30.0
    timeout_s: float = 10.0
    breaker_failures: int = 5
    breaker_open_s: float = 10.0
    tls: bool = False
    ca_file: str = ""
    token: str = ""
    token_file: str = ""

    @property
    def is_on(self) -> bool:
        return bool(self.session_address)

    def check(self) -> None:
        checks.refuse_first((f"publish.{name}", getattr(self, name) <= 0, checks.NOT_ABOVE_0) for name in _NOT_ABOVE_0)
        no_grpc = (
            "it needs grpcio, which is not installed. Install rta-supervisor[publish], or take the setting away to "
            "publish nowhere"
        )
        unsafe = "it would be sent in clear text to another host. Set publish.tls to true"
        too_seldom = f"it is more than {EVERY_MAX_S:g}, the longest period that viewers allow for"
        alone = "there is no publish.session_address: configurations are published for sessions"
        checks.refuse_first(
            [
                *((f"publish.{name}", *_address_rule(getattr(self, name))) for name in _ADDRESSES),
                ("publish.config_address", bool(self.config_address) and not self.is_on, alone),
                ("publish.every_s", self.every_s > EVERY_MAX_S, too_seldom),
                ("publish.ca_file", bool(self.ca_file) and not self.tls, "it is for TLS: set publish.tls to true"),
                ("publish.token", bool(self.token and self.token_file), "there is publish.token_file too. Use one"),
                ("publish.token", _TOKEN.fullmatch(self.token) is None, "it holds characters that no header may hold"),
                ("publish.token", bool(self.token) and not self.tls and not self._is_local, unsafe),
                ("publish.token_file", bool(self.token_file) and not self.tls and not self._is_local, unsafe),
                ("publish.session_address", self.is_on and importlib.util.find_spec("grpc") is None, no_grpc),
            ]
        )

    @property
    def _is_local(self) -> bool:
        """Whether both services are on this host."""
        return all(_is_loopback(address) for address in (self.session_address, self.config_address) if address)

    def bearer_token(self) -> str:
        """The token of every call, empty for none. A file among systemd's credentials may be named without its
        directory."""
        if not self.token_file:
            return self.token
        token = _read_file("publish.token_file", self.token_file).decode(errors="replace").strip()
        if not token or _TOKEN.fullmatch(token) is None:
            reason = "the file is empty, or holds characters that no header may hold"
            raise errors.BadConfiguration(where="publish.token_file", reason=reason)
        return token

    def root_certificates(self) -> bytes | None:
        """The certificates that services are checked with; None for those of the system."""
        if not self.ca_file:
            return None
        pem = _read_file("publish.ca_file", self.ca_file)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem.decode())
        except (ssl.SSLError, ValueError) as error:
            # The library would say of each call that the service can't be reached.
            reason = f"{self.ca_file} holds no certificates in PEM, or damaged ones"
            raise errors.BadConfiguration(where="publish.ca_file", reason=reason) from error
        return pem


_ADDRESSES: Final = ("session_address", "config_address")


def _read_file(where: str, name: str) -> bytes:
    path = Path(os.environ.get("CREDENTIALS_DIRECTORY", ""), name)
    try:
        return path.read_bytes()
    except OSError as error:
        raise errors.BadConfiguration(where=where, reason=f"{path} can't be read: {error.strerror}") from error


def _address_rule(address: str) -> tuple[bool, str]:
    match = _ADDRESS.fullmatch(address)
    is_wrong = bool(address) and (match is None or not 0 < int(match["port"]) <= 65_535)
    return is_wrong, "it is not of the form host:port, such as toolkit.example.com:2652"


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
