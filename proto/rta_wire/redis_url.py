"""URLs of Redis: one server, one that Sentinels watch, or a Cluster. Parses and redacts them; connects to nothing.

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
    """How a client finds its server: by the URL, from Sentinels, or from the nodes of a Cluster."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


class RedisUrl(msgspec.Struct, frozen=True):
    """A parsed URL."""

    mode: RedisMode
    url: str
    hosts: tuple[tuple[str, int], ...] = ()
    """Sentinels, or nodes of the Cluster to ask first. Empty for a single server: redis-py parses its URL itself."""

    master: str = ""
    scheme: str = "redis"
    account: str = ""
    """User and password as they stand in the URL, with the @."""

    database: int = 0
    query: str = ""

    def node_url(self, host: str, port: int) -> str:
        """The URL of one server, with scheme, account and database of this one."""
        address = f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{self.account}{address}:{port}/{self.database}{self.query}"


def parse(url: str, *, where: str = "Redis URL") -> RedisUrl:
    """Parses a URL. `where` says in errors which setting it came from."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise _bad(where, url, "it has no scheme; it begins with redis://, rediss://, unix:// or redis+sentinel://")
    if scheme in ("redis", "rediss"):
        database = rest.partition("?")[0].rpartition("@")[2].partition("/")[2].strip("/")
        if database and not database.isdecimal():
            # redis-py would take database 0.
            raise _bad(where, url, "its database, after the '/', is not a number")
    if scheme in ("redis", "rediss", "unix"):
        return RedisUrl(RedisMode.SINGLE, url)
    plain, _, mode = scheme.partition("+")
    if plain not in ("redis", "rediss") or mode not in (RedisMode.SENTINEL, RedisMode.CLUSTER):
        schemes = "redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster and rediss+cluster"
        raise _bad(where, url, f"its scheme {scheme!r} is not known; there are {schemes}")
    rest, mark, query = rest.partition("?")
    account, at, rest = rest.rpartition("@")
    addresses, _, path = rest.partition("/")
    default_port = SENTINEL_PORT if mode == RedisMode.SENTINEL else PORT
    hosts = tuple(_parse_host(address, default_port, where, url) for address in addresses.split(","))
    if mode == RedisMode.CLUSTER:
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


def _parse_host(text: str, default_port: int, where: str, url: str) -> tuple[str, int]:
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
    """Whether a URL holds a password."""
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
    """The error for a URL that redis-py refuses. Where there is a password, redis-py's own message may quote it."""
    reason = (
        "it is no URL of a Redis, or its query has an option or a value that redis-py does not take. "
        "Write '/', '@', '?' and '#' in a password as %2F, %40, %3F and %23"
    )
    return errors.BadConfiguration(where=f"Redis URL {redact(url)!r}", reason=reason if "@" in url else str(error))
