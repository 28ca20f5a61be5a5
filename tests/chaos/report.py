"""The tables at the end of a run, for people, and the same as JSON, which can be read again."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.chaos import soak_targets
from tests.chaos.attacks.figures import Figure
from tests.chaos.oracle import Verdict
from tests.chaos.result import Outcome, Result, totals

COLUMNS: Final = ("runs of", "runs", "s", "samples", "lost", "twice", "order", "lossy", "silent", "verdict")
"""Samples read, acknowledged and gone, there twice, out of order; sessions that miss some, and those not reported."""

ATTACK_COLUMNS: Final = (
    *(
        "quiet p99 ms",
        "PING p99 ms",
        "open p99 ms",
        "update p99 ms",
        "close p99 ms",
        "range age p99 ms",
        "operator max ms",
    ),
    *("/health max ms", "webhook max ms", "failed steps", "RSS + MiB", "Redis + MiB"),
)
"""The figures of an attack that stand in the table; all of them are in the JSON."""

WRONG: Final = "[red]wrong[/]"


def show(console: Console, size: str, outcomes: Sequence[Outcome]) -> bool:
    """Whether everything is right: no promise broke, and what had to happen did."""
    table = Table(*COLUMNS, title="what became of acknowledged samples")
    for outcome in outcomes:
        verdict = outcome.result.verdict
        numbers = (verdict.samples, verdict.lost, verdict.duplicated, verdict.disordered)
        table.add_row(
            f"{'control: ' if outcome.is_control else ''}{outcome.name}",
            str(outcome.result.runs),
            f"{outcome.result.seconds:.0f}",
            *(f"{number:,}" for number in numbers),
            str(outcome.result.lossy),
            str(outcome.result.unreported),
            WRONG if outcome.complaint else "right",
        )
    console.print(table)
    faults = Table("what happened", "times", title="faults, controls not counted")
    for name, count in sorted(totals(outcomes).items()):
        faults.add_row(name, f"{count:,}")
    console.print(faults)
    _show_attacks(console, [figure for outcome in outcomes for figure in outcome.result.figures])
    aims = soak_targets.of(size, outcomes)
    if aims:
        table = Table("aim", "wanted", "reached", "verdict", title="whether that was enough")
        for aim in aims:
            verdict_of_aim = "right" if aim.is_reached else "[red]not reached[/]"
            table.add_row(aim.name, f"{aim.wanted:,}", f"{aim.found:,}", verdict_of_aim)
        console.print(table)
    for outcome in outcomes:
        if outcome.complaint:
            console.print(f"[red]{outcome.name}[/]: {outcome.complaint}")
    return all(not outcome.complaint for outcome in outcomes) and all(aim.is_reached for aim in aims)


def _show_attacks(console: Console, figures: Sequence[Figure]) -> None:
    """A row per attack, a column per figure; what does not keep its limit is red."""
    if not figures:
        return
    cells = {(figure.attack, figure.name): figure for figure in figures}
    columns = [name for name in ATTACK_COLUMNS if any(name == figure.name for figure in figures)]
    table = Table("attack", *columns, title="what attacks did to others")
    for attack in dict.fromkeys(figure.attack for figure in figures):
        table.add_row(attack, *(_cell(cells.get((attack, name))) for name in columns))
    console.print(table)


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    text = f"{figure.value:,.0f}"
    return text if figure.is_kept else f"[red]{text} > {figure.limit:,.0f}[/]"


def as_json(seed: str, size: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "seed": seed,
        "size": size,
        "parts": [
            {
                "name": outcome.name,
                "control": outcome.is_control,
                "complaint": outcome.complaint,
                **vars(outcome.result),
                "verdict": dataclasses.asdict(outcome.result.verdict),
                "figures": [dataclasses.asdict(figure) for figure in outcome.result.figures],
            }
            for outcome in outcomes
        ],
        "faults": totals(outcomes),
        "aims": [dataclasses.asdict(aim) for aim in soak_targets.of(size, outcomes)],
    }


def from_json(figures: dict[str, Any]) -> list[Outcome]:
    """What `as_json` wrote."""
    return [_outcome(dict(part)) for part in figures["parts"]]


def _outcome(part: dict[str, Any]) -> Outcome:
    name, is_control, complaint = (part.pop(field) for field in ("name", "control", "complaint"))
    part |= {field: Counter(part[field]) for field in ("counts", "ended")}
    part["verdict"] = Verdict(**part["verdict"])
    part["figures"] = [Figure(**figure) for figure in part.get("figures", [])]
    return Outcome(name, is_control, Result(**part), complaint)
