"""Section `[node]`: how a supervisor registers among others, takes leases, and ends."""

from typing import Final

import msgspec

from rta_supervisor.settings.sections import checks

LEASE_MIN_S: Final = 0.2


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Times of one supervisor among several."""

    ttl_s: int = 15
    renew_s: float = 5.0
    beat_s: float = 1.0
    lease_s: float = 10.0
    drain_s: float = 20.0

    def check(self) -> None:
        not_in_half = "it is not between 0 and half of node.ttl_s"
        checks.refuse_first(
            [
                ("node.ttl_s", self.ttl_s < 1, checks.NOT_ABOVE_0),
                ("node.renew_s", not 0 < self.renew_s <= self.ttl_s / 2, not_in_half),
                ("node.beat_s", not 0 < self.beat_s < self.ttl_s, "it is not between 0 and node.ttl_s"),
                ("node.drain_s", self.drain_s < 0, checks.BELOW_0),
                ("node.lease_s", self.lease_s < LEASE_MIN_S, f"it is less than {LEASE_MIN_S} s"),
            ]
        )
