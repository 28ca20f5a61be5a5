"""Notes that a principal has reached a limit: counted for metrics and the doctor, and logged."""

from rta_supervisor.diagnostics import counters, log


def note_reached(principal: str, limit: str, *, count: int = 1) -> None:
    """Note that something of a principal was refused or held back. `limit`: the name of the setting in `[limits]`, or
    with its section where it stands in another."""
    counters.counts.limits_reached[principal, limit] += count
    log.get().warning("limit_reached", principal=principal, limit=setting_of(limit), count=count)


def setting_of(limit: str) -> str:
    """The setting that a limit is set by, with its section."""
    return limit if "." in limit else f"limits.{limit}"
