"""Section `[webhooks]`: the URLs that state changes of sessions are posted to, and how often that is tried."""

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from rta_supervisor.settings.sections import checks
from rta_wire import errors
from rta_wire.session import State

SECRET_MIN_BYTES: Final = 16
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class WebhookTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A URL, the secret that signs what is posted to it, and the states that it is posted; none: all of them."""

    url: str
    secret: str = ""
    secret_file: str = ""
    states: tuple[State, ...] = ()

    def wants(self, state: State) -> bool:
        """Whether a change to a state is posted to this target."""
        return not self.states or state in self.states

    def key_bytes(self, name: str) -> bytes:
        """The key of the signature. A file among systemd's credentials may be named without its directory."""
        if self.secret:
            return self.secret.encode()
        path = Path(os.environ.get("CREDENTIALS_DIRECTORY", ""), self.secret_file)
        where = f"webhooks.to.{name}.secret_file"
        try:
            secret = path.read_bytes().strip()
        except OSError as error:
            raise errors.BadConfiguration(where=where, reason=f"{path} can't be read: {error.strerror}") from error
        if len(secret) < SECRET_MIN_BYTES:
            raise errors.BadConfiguration(where=where, reason=f"{path} holds less than {SECRET_MIN_BYTES} bytes")
        return secret


class WebhookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Targets by name, and what holds for all of them."""

    timeout_s: float = 10.0
    tries: int = 8
    first_retry_s: float = 2.0
    breaker_failures: int = 5
    breaker_open_s: float = 30.0
    max_pending: int = 50_000
    to: dict[str, WebhookTarget] = {}

    def check(self) -> None:
        checks.refuse_first(
            (f"webhooks.{name}", getattr(self, name) <= 0, checks.NOT_ABOVE_0)
            for name in ("timeout_s", "tries", "first_retry_s", "breaker_failures", "breaker_open_s", "max_pending")
        )
        for name, target in self.to.items():
            _check_target(name, target)


def _check_target(name: str, target: WebhookTarget) -> None:
    where = f"webhooks.to.{name}"
    bad_name = "a name has letters, digits, '_' and '-' only, 64 at most"
    url_problem = _url_problem(target.url)
    has_one_secret = bool(target.secret) != bool(target.secret_file)
    is_short = 0 < len(target.secret.encode()) < SECRET_MIN_BYTES
    checks.refuse_first(
        [
            (where, _NAME.fullmatch(name) is None, bad_name),
            (f"{where}.url", url_problem is not None, url_problem or ""),
            (where, not has_one_secret, "it needs either secret or secret_file"),
            (f"{where}.secret", is_short, f"it has less than {SECRET_MIN_BYTES} bytes"),
        ]
    )


def _url_problem(url: str) -> str | None:
    """Why nothing can be posted to a URL; None if that is possible. It is not quoted, since it may hold a token."""
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
