"""What an attack did to others, as figures with the limits that each has to keep. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.attacks.recording import Step, percentile

STEPS: Final = ("open", "update", "close")
STEP_NAMES: Final = tuple(f"{name} p99 ms" for name in STEPS)
EXTRA_MS: Final = 250.0
"""How much longer than a bare client's PING a request of a victim may take."""

RANGE_AGE_MS: Final = 1000.0
"""How old the end of the time range may be that readers see of a session that is written to all the time."""

COMMAND_MS: Final = 2000.0
WEBHOOK_MS: Final = 2000.0
"""How long after the reply to a close a webhook may be told of it."""

P99: Final = 0.99


@dataclass(frozen=True)
class Figure:
    """One measured value. Without a limit it is there to be looked at."""

    attack: str
    name: str
    value: float
    limit: float | None = None

    @property
    def is_kept(self) -> bool:
        return self.limit is None or self.value <= self.limit


def of_steps(
    attack: str, steps: Sequence[Step], *, extra_ms: float = EXTRA_MS, range_age_ms: float = RANGE_AGE_MS
) -> list[Figure]:
    """Figures of what was noted while an attack had its effects. `extra_ms`, `range_age_ms`: aims beside the PING."""
    taken: dict[str, list[float]] = {}
    for step in steps:
        taken.setdefault(step.what, []).append(step.ms)
    ping_ms = percentile(taken.get("ping", []), P99)
    commands = taken.get("operator list", []) + taken.get("operator abandon", [])
    victims = {"open", "update", "write", "close", "live open", "live write", "live close"}
    return [
        Figure(attack, "PING p99 ms", ping_ms),
        Figure(attack, "PING max ms", max(taken.get("ping", [0.0]))),
        *(Figure(attack, f"{name} p99 ms", percentile(taken.get(name, []), P99), ping_ms + extra_ms) for name in STEPS),
        Figure(attack, "cycles", len(taken.get("close", []))),
        Figure(attack, "range age p99 ms", percentile(taken.get("range age", []), P99), ping_ms + range_age_ms),
        Figure(attack, "operator max ms", max(commands or [COMMAND_MS + 1]), COMMAND_MS),
        Figure(attack, "/health max ms", max(taken.get("health", [COMMAND_MS + 1])), COMMAND_MS),
        Figure(attack, "webhook max ms", max(taken.get("webhook", [WEBHOOK_MS + 1])), WEBHOOK_MS),
        Figure(attack, "failed steps", sum(bool(step.error) for step in steps if step.what in victims), 0),
        Figure(attack, "failed commands", sum(bool(step.error) for step in steps if step.what not in victims), 0),
        Figure(attack, "wrong ends", len(taken.get("wrong end", [])), 0),
    ]


def complaint(figures: Iterable[Figure]) -> str:
    """The limits that were not kept; nothing where all were."""
    return "; ".join(
        f"{figure.attack}: {figure.name} {figure.value:,.0f}, more than {figure.limit:,.0f}"
        for figure in figures
        if figure.limit is not None and not figure.is_kept
    )
