"""Where Redis is: one server, one that Sentinels watch, or a Cluster. Reads the URL; connects to nothing.

redis://user:password@host:port/db      rediss:// with TLS      unix:///path/to/socket
redis+sentinel://host:port,host:port/master-name/db             rediss+sentinel:// with TLS
redis+cluster://host:port,host:port                             rediss+cluster:// with TLS
"""

import enum
import re
from typing import Final
from urllib.parse import unquote

import msgspec

from rta_wire import errors

PORT: Final = 6379
SENTINEL_PORT: Final = 26_379
PORT_MAX: Final = 65_535


class RedisMode(enum.StrEnum):
    """How many servers there are, and who says which of them to ask."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


class RedisUrl(msgspec.Struct, frozen=True):
    """A URL, read."""

    mode: RedisMode
    url: str
    hosts: tuple[tuple[str, int], ...] = ()
    """Sentinels, or nodes of the Cluster to begin with. Empty for a single server: its URL says it all."""

    master: str = ""
    scheme: str = "redis"
    account: str = ""
    """User and password as they stand in the URL, with the @."""

    database: int = 0
    query: str = ""

    def node_url(self, host: str, port: int) -> str:
        """The URL of one server that was found."""
        where = f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{self.account}{where}:{port}/{self.database}{self.query}"


def parse(url: str, *, where: str = "Redis URL") -> RedisUrl:
    """`where` says in an error where the URL came from."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise _bad(where, url, "it has no scheme; it begins with redis://, rediss://, unix:// or redis+sentinel://")
    if scheme in ("redis", "rediss", "unix"):
        return RedisUrl(RedisMode.SINGLE, url)
    plain, _, how = scheme.partition("+")
    if plain not in ("redis", "rediss") or how not in (RedisMode.SENTINEL, RedisMode.CLUSTER):
        known = "redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster and rediss+cluster"
        raise _bad(where, url, f"its scheme {scheme!r} is not known; there are {known}")
    rest, mark, query = rest.partition("?")
    account, at, rest = rest.rpartition("@")
    listed, _, path = rest.partition("/")
    default = SENTINEL_PORT if how == RedisMode.SENTINEL else PORT
    hosts = tuple(_host(one, default, where, url) for one in listed.split(","))
    if how == RedisMode.CLUSTER:
        if path.strip("/") not in ("", "0"):
            raise _bad(where, url, f"a Cluster has database 0 only, not {path!r}")
        return RedisUrl(RedisMode.CLUSTER, url, hosts, "", plain, account + at, 0, mark + query)
    name, _, database = path.partition("/")
    if not name:
        raise _bad(where, url, "the name of the master is missing: redis+sentinel://host:port,host:port/master-name/0")
    if database and not database.isdecimal():
        raise _bad(where, url, f"the database {database!r} is not a number")
    return RedisUrl(
        RedisMode.SENTINEL, url, hosts, unquote(name), plain, account + at, int(database or 0), mark + query
    )


def _host(text: str, default_port: int, where: str, url: str) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        colon, port = port[:1], port[1:]
        if not bracket or colon not in ("", ":"):
            raise _bad(where, url, f"{text!r} is not host:port")
    else:
        host, colon, port = text.partition(":")
    if not host or (colon and not (port.isdecimal() and 0 < int(port) <= PORT_MAX)):
        raise _bad(where, url, f"{text!r} is not host:port; several are divided by commas")
    return host, int(port) if colon else default_port


def _bad(where: str, url: str, reason: str) -> errors.BadConfiguration:
    return errors.BadConfiguration(where=f"{where} {redact(url)!r}", reason=reason)


_SECRET_IN_QUERY: Final = re.compile(r"([?&]password=)[^&]*", re.IGNORECASE)


def has_password(url: str) -> bool:
    """Whether a secret stands in a URL itself."""
    account, at, _ = url.partition("://")[2].rpartition("@")
    return bool(at and account.partition(":")[2]) or bool(_SECRET_IN_QUERY.search(url))


def redact(url: str) -> str:
    """A URL without its password, for people and logs."""
    scheme, separator, rest = _SECRET_IN_QUERY.sub(r"\1***", url).partition("://")
    account, at, host = rest.rpartition("@")
    if not at:
        return f"{scheme}{separator}{host}"
    user, colon, _ = account.partition(":")
    return f"{scheme}{separator}{user}{':***' if colon else ''}@{host}"


def bad_url(url: str, error: ValueError) -> errors.BadConfiguration:
    """A URL that no client can be made of. What Python says of it may quote a part of the password."""
    reason = "it is no URL of a Redis. Write '/', '@', '?' and '#' in a password as %2F, %40, %3F and %23"
    return errors.BadConfiguration(where=f"Redis URL {redact(url)!r}", reason=reason if "@" in url else str(error))
