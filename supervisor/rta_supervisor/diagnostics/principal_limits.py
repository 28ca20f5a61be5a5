"""Notes that a principal has reached a limit of section `[limits]`: counted for metrics and the doctor, and logged."""

from rta_supervisor.diagnostics import counters, log


def note_reached(principal: str, limit: str, *, count: int = 1) -> None:
    """Note that something of a principal was refused or held back. `limit`: the name of the setting in `[limits]`."""
    counters.counts.limits_reached[principal, limit] += count
    log.get().warning("limit_reached", principal=principal, limit=f"limits.{limit}", count=count)
