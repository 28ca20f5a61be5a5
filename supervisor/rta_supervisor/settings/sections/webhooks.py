"""Who is told of state changes, as the settings say. Owns what a target is and what is wrong with one."""

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from rta_wire import errors
from rta_wire.session import State

SECRET_MIN_BYTES: Final = 16
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class WebhookTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is told of state changes."""

    url: str
    secret: str = ""
    secret_file: str = ""
    states: tuple[State, ...] = ()

    def wants(self, state: State) -> bool:
        return not self.states or state in self.states

    def key_bytes(self, name: str) -> bytes:
        """What signs. A file in systemd's credentials may be named without its directory."""
        if self.secret:
            return self.secret.encode()
        path = Path(os.environ.get("CREDENTIALS_DIRECTORY", ""), self.secret_file)
        try:
            secret = path.read_bytes().strip()
        except OSError as error:
            raise errors.BadConfiguration(
                where=f"webhooks.to.{name}.secret_file", reason=f"{path} can't be read: {error.strerror}"
            ) from error
        if len(secret) < SECRET_MIN_BYTES:
            raise errors.BadConfiguration(
                where=f"webhooks.to.{name}.secret_file", reason=f"{path} holds less than {SECRET_MIN_BYTES} bytes"
            )
        return secret


class WebhookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    timeout_s: float = 10.0
    tries: int = 8
    first_retry_s: float = 2.0
    breaker_failures: int = 5
    breaker_open_s: float = 30.0
    max_pending: int = 10_000
    to: dict[str, WebhookTarget] = {}


def check(webhooks: WebhookSettings) -> None:
    for name in ("timeout_s", "tries", "first_retry_s", "breaker_failures", "breaker_open_s", "max_pending"):
        if getattr(webhooks, name) <= 0:
            raise errors.BadConfiguration(where=f"webhooks.{name}", reason="it is not above 0")
    for name, target in webhooks.to.items():
        where = f"webhooks.to.{name}"
        if not _NAME.fullmatch(name):
            raise errors.BadConfiguration(
                where=where, reason="a name has letters, digits, '_' and '-' only, 64 at most"
            )
        if problem := _url_problem(target.url):
            raise errors.BadConfiguration(where=f"{where}.url", reason=problem)
        if bool(target.secret) == bool(target.secret_file):
            raise errors.BadConfiguration(where=where, reason="it needs either secret or secret_file")
        if target.secret and len(target.secret.encode()) < SECRET_MIN_BYTES:
            raise errors.BadConfiguration(where=f"{where}.secret", reason=f"it has less than {SECRET_MIN_BYTES} bytes")


def _url_problem(url: str) -> str | None:
    """Why nothing can be posted to a URL. It is not repeated: it may hold a token."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it is not of the form https://host/path"
    if "@" in parts.netloc:
        return "it holds a user name; what signs a post is the secret"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "it holds characters that have to be percent-encoded"
    return None
