"""The tables at the end of a run, for people, and the same as JSON."""

import dataclasses
from collections import Counter
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.chaos.plan import Part
from tests.chaos.result import Result

Outcome = tuple[Part, Result, str]
"""A part, what came out of it, and what is wrong with that."""

COLUMNS: Final = ("runs of", "runs", "s", "samples", "lost", "twice", "order", "lossy", "silent", "verdict")
"""Samples read, acknowledged and gone, there twice, out of order; sessions that miss some, and those not reported."""


def show(console: Console, outcome: list[Outcome]) -> None:
    table = Table(*COLUMNS, title="what became of acknowledged samples")
    for part, result, complaint in outcome:
        verdict = result.verdict
        numbers = (verdict.samples, verdict.lost, verdict.duplicated, verdict.disordered)
        table.add_row(
            f"{'control: ' if part.is_control else ''}{part.name}",
            str(result.runs),
            f"{result.seconds:.0f}",
            *(f"{number:,}" for number in numbers),
            str(result.lossy),
            str(result.unreported),
            "[red]wrong[/]" if complaint else "right",
        )
    console.print(table)
    faults = Table("what happened", "times", title="faults, controls not counted")
    for name, count in sorted(totals(outcome).items()):
        faults.add_row(name, f"{count:,}")
    console.print(faults)
    for part, _, complaint in outcome:
        if complaint:
            console.print(f"[red]{part.name}[/]: {complaint}")


def totals(outcome: list[Outcome]) -> Counter[str]:
    found: Counter[str] = Counter()
    for part, result, _ in outcome:
        if not part.is_control:
            found += result.counts
    return found


def as_json(seed: str, size: str, outcome: list[Outcome]) -> dict[str, Any]:
    return {
        "seed": seed,
        "size": size,
        "parts": [
            {
                "name": part.name,
                "control": part.is_control,
                "complaint": complaint,
                **vars(result),
                "verdict": dataclasses.asdict(result.verdict),
            }
            for part, result, complaint in outcome
        ],
        "faults": totals(outcome),
    }
