"""How long to wait before a delivery is tried again. Pure."""

from typing import Final

BACKOFF_FACTOR: Final = 3.0
BACKOFF_MAX_S: Final = 3600.0


def backoff_s(attempt: int, first_s: float, jitter: float) -> float:
    """The pause after a failed attempt: longer each time, up to a bound.

    `jitter`, a random number from 0 to 1, spreads deliveries that failed at the same time.
    """
    full_s = min(first_s * BACKOFF_FACTOR ** (attempt - 1), BACKOFF_MAX_S)
    return full_s * (0.5 + jitter / 2)
