"""What running supervisors registered in Redis: whether any runs, whom they serve, and the template of their keys."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import redis
import redis.exceptions

from rta_wire import errors, keys, redis_url

_FIELDS = (keys.NODE_TEMPLATE, keys.NODE_PRINCIPALS)


class Registration(NamedTuple):
    """What one supervisor registered, or the last one of all. Versions before 0.2 register neither value."""

    session_template: str | None
    principals: frozenset[str] | None

    @classmethod
    def from_reply(cls, reply: Sequence[bytes | None]) -> "Registration":
        template, principals = reply
        return cls(
            None if template is None else template.decode(),
            None if principals is None else frozenset(principals.decode().split()),
        )


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

    def check(self) -> bool:
        """Whether a supervisor runs that serves the principal. False where one did and may come back.

        Raises where none was ever seen, or where those that run serve others only: waiting would not help.
        """
        running = [registration for registration in self._running() if registration is not None]
        last = None if running else _read(self._redis, self._keys.last_registration())
        registrations = running or ([] if last is None else [last])
        if not registrations:
            raise errors.NoSupervisor(url=redis_url.redact(self._url), prefix=self._keys.prefix)
        for registration in registrations:
            self.session_template = registration.session_template or self.session_template
        if all(served is not None and self._principal not in served for _, served in registrations):
            raise errors.PrincipalNotServed(
                principal=self._principal,
                served=", ".join(sorted({name for _, served in registrations for name in served or ()})),
            )
        return bool(running)

    def _running(self) -> list[Registration | None]:
        nodes: Any = self._redis.zrange(self._keys.nodes(), 0, -1)
        return [_read(self._redis, self._keys.node(node.decode())) for node in nodes]


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
