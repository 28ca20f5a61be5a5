"""Section `[control]`: who may send requests and reports, and how their control streams are read."""

import msgspec

from rta_supervisor.settings.sections import checks
from rta_wire import errors, keys, name_checks


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
        checks.refuse_first(
            [
                ("control.batch", self.batch < 1, checks.NOT_ABOVE_0),
                ("control.max_unacknowledged", self.max_unacknowledged < 1, checks.NOT_ABOVE_0),
                ("control.dead_letters_max", self.dead_letters_max < 1, checks.NOT_ABOVE_0),
                ("control.retry_s", self.retry_s <= 0, checks.NOT_ABOVE_0),
                ("control.pickup_s", self.pickup_s <= 0, checks.NOT_ABOVE_0),
                ("control.reply_ttl_s", self.reply_ttl_s < 1, checks.NOT_ABOVE_0),
                ("control.expire_s", self.expire_s <= self.retry_s, "it is not more than control.retry_s"),
                ("control.principals", not self.principals, "it names nobody"),
            ]
        )
        for principal in self.requesters:
            name_checks.check_principal(principal)
        for principal, prefix in self.stream_prefixes.items():
            if principal not in self.principals:
                raise errors.BadConfiguration(where="control.stream_prefixes", reason=f"{principal!r} is no principal")
            name_checks.check_stream_name(prefix)
