"""What running supervisors registered in Redis: whether any runs, whom they serve, and the template of their keys."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import redis
import redis.exceptions

from rta_wire import errors, keys, redis_url

_FIELDS = (keys.NODE_TEMPLATE, keys.NODE_PRINCIPALS, keys.NODE_VERSION)
_RELEASE = re.compile(r"(\d{1,9})\.(\d{1,9})")

Release = tuple[int, int]
"""The first two numbers of a version."""


class Registration(NamedTuple):
    """What one supervisor registered, or the last one of all. Versions before 0.2 register neither value."""

    session_template: str | None
    principals: frozenset[str] | None
    version: str = ""

    @classmethod
    def from_reply(cls, reply: Sequence[bytes | None]) -> "Registration":
        template, principals, version = reply
        return cls(
            None if template is None else template.decode(),
            None if principals is None else frozenset(principals.decode().split()),
            (version or b"").decode(errors="replace"),
        )

    def is_older_than(self, release: Release) -> bool:
        """Whether it is known to be older."""
        numbers = _RELEASE.match(self.version)
        return numbers is not None and (int(numbers[1]), int(numbers[2])) < release


UNKNOWN = Registration(None, None)


class Supervisors:
    """The supervisors of one Redis and key prefix, as a principal sees them."""

    def __init__(self, client: redis.Redis, url: str, names: keys.Keys, principal: str) -> None:
        """`url`: for errors."""
        self._redis = client
        self._url = url
        self._keys = names
        self.prefix = names.prefix
        self._principal = principal
        self.session_template: str | None = None
        """The template of session keys that a supervisor registered; None until one was seen."""
        self._registrations: list[Registration] = []
        """Those of the last check."""

    def check(self) -> bool:
        """Whether a supervisor runs that serves the principal. False where one did and may come back.

        Raises where none was ever seen, or where those that run serve others only: waiting would not help.
        """
        running = [registration for registration in self._running() if registration is not None]
        last = None if running else _read(self._redis, self._keys.last_registration())
        registrations = running or ([] if last is None else [last])
        if not registrations and self._registrations:
            return False  # Redis lost its data: one that was seen before registers again
        if not registrations:
            raise errors.NoSupervisor(url=redis_url.redact(self._url), prefix=self._keys.prefix)
        self._registrations = registrations
        for registration in registrations:
            self.session_template = registration.session_template or self.session_template
        if all(served is not None and self._principal not in served for _, served, _ in registrations):
            raise errors.PrincipalNotServed(
                principal=self._principal,
                served=", ".join(sorted({name for _, served, _ in registrations for name in served or ()})),
            )
        return bool(running)

    @property
    def are_versions_known(self) -> bool:
        """Whether all supervisors of the last check said their version: an ACL file of 0.1.0 lets no writer read it."""
        return all(registration.version for registration in self._registrations)

    def require(self, release: Release, what: str) -> None:
        """Raise where a supervisor is too old for something, which it would take for a mistake: any may get the
        request."""
        self.check()
        for registration in self._registrations:
            if registration.is_older_than(release):
                raise too_old(what, release, f"one of version {registration.version} is running")

    def _running(self) -> list[Registration | None]:
        nodes: Any = self._redis.zrange(self._keys.nodes(), 0, -1)
        return [_read(self._redis, self._keys.node(node.decode())) for node in nodes]


def too_old(what: str, release: Release, found: str) -> errors.SupervisorTooOld:
    """The error for something that a supervisor does not know. `found`: a clause for people."""
    return errors.SupervisorTooOld(what=what, needed=".".join(map(str, release)), found=found)


def registered_template(client: redis.Redis, names: keys.Keys) -> str:
    """The template of session keys that the supervisor registered which was seen last, else that of `names`."""
    last = _read(client, names.last_registration())
    return (last and last.session_template) or names.session_template


def _read(client: redis.Redis, key: str) -> Registration | None:
    """What is registered under a key; None where nothing is."""
    try:
        reply: Any = client.hmget(key, [*_FIELDS, keys.NODE_SEEN_MS])
    except redis.exceptions.NoPermissionError:
        # An ACL file of 0.1.0 lets a writer ask only whether the key exists.
        return UNKNOWN if client.exists(key) else None
    *values, seen_ms = reply
    return None if seen_ms is None else Registration.from_reply(values)
