"""Section `[control]`: who may send requests and reports, and how their control streams are read."""

from collections.abc import Iterator

import msgspec

from rta_supervisor.settings import sources
from rta_supervisor.settings.sections import checks
from rta_wire import keys, name_checks


class ControlSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Principals, and limits of the control streams."""

    principals: tuple[str, ...] = (keys.DEFAULT_PRINCIPAL,)
    operators: tuple[str, ...] = (keys.DEFAULT_OPERATOR,)
    stream_prefixes: dict[str, str] = {}
    batch: int = 1000
    retry_s: float = 30.0
    pickup_s: float = 120.0
    expire_s: float = 600.0
    max_unacknowledged: int = 10_000
    reply_ttl_s: int = 20 * 60
    dead_letters_max: int = 10_000

    @property
    def requesters(self) -> tuple[str, ...]:
        """Principals and operators, each once: everybody whose requests are read."""
        return tuple(dict.fromkeys((*self.principals, *self.operators)))

    def check(self) -> None:
        answered_twice = "it is not more than control.retry_s: a request that is delivered again would be served again"
        checks.refuse_first(
            [
                ("control.batch", self.batch < 1, checks.NOT_ABOVE_0),
                ("control.max_unacknowledged", self.max_unacknowledged < 1, checks.NOT_ABOVE_0),
                ("control.dead_letters_max", self.dead_letters_max < 1, checks.NOT_ABOVE_0),
                ("control.retry_s", self.retry_s <= 0, checks.NOT_ABOVE_0),
                ("control.pickup_s", self.pickup_s <= 0, checks.NOT_ABOVE_0),
                ("control.reply_ttl_s", self.reply_ttl_s < 1, checks.NOT_ABOVE_0),
                ("control.reply_ttl_s", self.reply_ttl_s <= self.retry_s, answered_twice),
                ("control.expire_s", self.expire_s <= self.retry_s, "it is not more than control.retry_s"),
                ("control.principals", not self.principals, "it names nobody"),
            ]
        )
        for where, names in (("control.principals", self.principals), ("control.operators", self.operators)):
            for name in names:
                checks.refuse_bad_name(where, name_checks.check_principal, name)
        for principal, prefix in self.stream_prefixes.items():
            where = sources.dotted(("control", "stream_prefixes", principal))
            stranger = "it is for a principal, and control.principals does not name it"
            checks.refuse_first([(where, principal not in self.principals, stranger)])
            checks.refuse_bad_name(where, name_checks.check_stream_name, prefix)

    def shared_streams(self) -> Iterator[tuple[str, str, str]]:
        """Each principal that may open sessions in streams of another one, with that one and the prefix of both."""
        for owner, prefix in self.stream_prefixes.items():
            for other, other_prefix in self.stream_prefixes.items():
                if other != owner and other_prefix.startswith(prefix):
                    yield owner, other, prefix
