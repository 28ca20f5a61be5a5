"""Section `[limits]`: how much of the supervisor each principal may use, and its share where many ask at once."""

from typing import Final

import msgspec

from rta_supervisor.settings import sources
from rta_supervisor.settings.sections import checks

DEFAULT_WEIGHT: Final = 1.0
WEIGHT_MIN: Final = 0.01
WEIGHT_MAX: Final = 100
BYTES_MIN: Final = 1024 * 1024
"""Limits of bytes: less would refuse one payload, or one page, of the largest size."""


class LimitsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits that hold for each principal by itself."""

    waiting_requests: int = 10_000
    requests_in_hand: int = 1000
    open_sessions: int = 200_000
    session_units: int = 100_000
    session_properties: int = 1000
    webhook_deliveries: int = 10_000
    payload_bytes: int = 16 * 1024 * 1024
    unread_reply_bytes: int = 16 * 1024 * 1024
    configs: int = 1000
    config_bytes: int = 64 * 1024 * 1024
    weights: dict[str, float] = {}

    def weight(self, principal: str) -> float:
        """The share of a principal in relation to others."""
        return self.weights.get(principal, DEFAULT_WEIGHT)

    def check(self) -> None:
        other_weight = f"it is not between {WEIGHT_MIN} and {WEIGHT_MAX}"
        counts = [name for name in self.__struct_fields__ if name != "weights"]
        checks.refuse_first(
            [
                *((f"limits.{name}", getattr(self, name) < 1, checks.NOT_ABOVE_0) for name in counts),
                *(
                    (f"limits.{name}", getattr(self, name) < BYTES_MIN, f"it is less than {BYTES_MIN}, which is 1 MiB")
                    for name in ("payload_bytes", "unread_reply_bytes", "config_bytes")
                ),
                *(
                    (sources.dotted(("limits", "weights", name)), not WEIGHT_MIN <= weight <= WEIGHT_MAX, other_weight)
                    for name, weight in self.weights.items()
                ),
            ]
        )
