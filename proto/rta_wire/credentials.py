"""Password and TLS files of a Redis URL: from files that the URL or settings name, or from the environment.

Writers carry one URL from the driver to every task, so files can be named in its query: `?ca_file=/etc/ssl/ca.pem`.
Only names of files are sent; each process reads its own. The one module of the wire that reads files and the
environment; it connects to nothing.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from rta_wire import errors, redis_url

PASSWORD_VARIABLE: Final = "RTA_REDIS_PASSWORD"  # noqa: S105 - a name, not a secret
CREDENTIALS_VARIABLE: Final = "CREDENTIALS_DIRECTORY"
CREDENTIAL: Final = "redis-password"
"""Name of the password among the credentials that systemd passes to a service."""

_PASSWORD_FILE: Final = "password_file"  # noqa: S105 - a name, not a secret
_TLS_FILES: Final = {"ca_file": "ssl_ca_certs", "cert_file": "ssl_certfile", "key_file": "ssl_keyfile"}
FILES: Final = (_PASSWORD_FILE, *_TLS_FILES)
_WITHOUT_TLS: Final = ("redis", "unix")


class ResolvedUrl(msgspec.Struct, frozen=True):
    """A URL without names of files, and the password and TLS files as options of redis-py. Never printed whole."""

    url: str
    options: dict[str, Any]

    def client_options(self, timeout_s: float) -> dict[str, Any]:
        """Options of redis-py for every client, synchronous or not. What the query of the URL says comes before
        them. Switching off retries is left to the caller: it takes classes of redis-py."""
        return {
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
            # CLIENT SETINFO is not sent: an ACL that allows it keeps a Redis 7.0 from starting.
            "driver_info": None,
            **self.options,
        }

    def __repr__(self) -> str:
        return f"ResolvedUrl({redis_url.redact(self.url)!r})"


def resolve_url(
    url: str, files: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> ResolvedUrl:
    """Takes the files off a URL and reads them. `files` has paths by names of `FILES`; those in the URL come first."""
    environ = os.environ if environ is None else environ
    address, url_files = _split_files(url)
    paths = {name: path for name, path in (files or {}).items() if path} | url_files
    scheme = address.partition("://")[0]
    options: dict[str, Any] = {}
    for name, option in _TLS_FILES.items():
        if name in paths:
            if scheme.partition("+")[0] in _WITHOUT_TLS:
                raise errors.BadConfiguration(where=name, reason=f"{scheme}:// has no TLS. Use rediss://")
            read_secret(name, paths[name])
            options[option] = paths[name]
    if _PASSWORD_FILE in paths:
        if redis_url.has_password(address):
            raise errors.BadConfiguration(where=_PASSWORD_FILE, reason="the URL has a password too. Use one of them")
        options["password"] = read_secret(_PASSWORD_FILE, paths[_PASSWORD_FILE])
    elif not redis_url.has_password(address) and (password := _password_from_environment(environ)):
        options["password"] = password
    return ResolvedUrl(address, options)


def _split_files(url: str) -> tuple[str, dict[str, str]]:
    """The URL without the files in its query, and those files."""
    address, mark, query = url.partition("?")
    parameters = parse_qsl(query, keep_blank_values=True)
    files = {name: value for name, value in parameters if name in FILES}
    if not files:
        return url, {}
    rest = urlencode([parameter for parameter in parameters if parameter[0] not in FILES])
    return address + (mark + rest if rest else ""), files


def _password_from_environment(environ: Mapping[str, str]) -> str | None:
    if password := environ.get(PASSWORD_VARIABLE):
        return check_utf8(PASSWORD_VARIABLE, password)
    directory = environ.get(CREDENTIALS_VARIABLE)
    if directory and (path := Path(directory) / CREDENTIAL).exists():
        return read_secret(CREDENTIAL, str(path))
    return None


def read_secret(name: str, path: str) -> str:
    """The text of a file. `name` is the setting that names the file, for errors."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise errors.BadConfiguration(where=f"{name} {path}", reason=f"it can't be read: {reason}") from error
    if not text:
        raise errors.BadConfiguration(where=f"{name} {path}", reason="it is empty")
    return text


def check_utf8(variable: str, value: str) -> str:
    """The value of a variable of the environment, unless it has bytes that are no UTF-8: in Python those are lone
    surrogates, which nothing can send."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise errors.BadConfiguration(where=variable, reason="it is not valid UTF-8") from error
    return value


def check_no_password(url: str) -> str:
    """The URL itself, if it holds no password: everybody on the host can read a command line."""
    if redis_url.has_password(url):
        raise errors.Usage(
            reason=f"A password on the command line can be read by everybody on this host ({redis_url.redact(url)}). "
            f"Put it into a file and name that in redis.password_file, or into {PASSWORD_VARIABLE} in the environment"
        )
    return url
