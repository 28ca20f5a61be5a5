"""Notes that a principal has reached a limit: counted for metrics and the doctor, and logged."""

from typing import Final

from rta_supervisor.diagnostics import counters, log

SPOILT_KEYS: Final = "spoilt_keys"
"""In place of a limit: keys of its sessions hold something else than they should."""

EVICTED: Final = "messages_evicted"
"""In place of a limit: its messages were removed from its control streams before anybody read them."""


def note_reached(principal: str, limit: str, *, count: int = 1) -> None:
    """Note that something of a principal was refused or held back. `limit`: the name of the setting in `[limits]`, or
    with its section where it stands in another."""
    counters.counts.limits_reached[principal, limit] += count
    log.get().warning("limit_reached", principal=principal, limit=setting_of(limit), count=count)


def note_spoilt(principal: str) -> None:
    """Count a session of a principal with a key that can't be read or written. Whoever finds it logs it."""
    counters.counts.limits_reached[principal, SPOILT_KEYS] += 1


def note_evicted(principal: str, count: int) -> None:
    """Count messages of a principal that nobody has read. Whoever finds it logs it."""
    counters.counts.limits_reached[principal, EVICTED] += count


def setting_of(limit: str) -> str:
    """The setting that a limit is set by, with its section."""
    return limit if "." in limit else f"limits.{limit}"
