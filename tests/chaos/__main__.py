"""`make chaos` and `make soak`: break everything, judge every sample, print tables; 1 where a promise broke."""

import argparse
import json
import secrets
import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.chaos import plan, report
from tests.chaos.plan import Part
from tests.chaos.result import Result

WIDTH: Final = 120


def run_part(part: Part, seed: str, advance: plan.Advance) -> tuple[Result, str]:
    """All runs of a part, and what is wrong with them. Each run has to hold by itself; controls hold together."""
    total = Result(runs=0)
    complaint = ""
    for number in range(part.times):
        began_s = time.monotonic()
        result = part.run(f"{seed}/{part.name}/{number}", advance)
        result.seconds = time.monotonic() - began_s
        if not part.is_control:
            complaint = complaint or part.demand(result)
        total.add(result)
    return total, part.demand(total) if part.is_control else complaint


def run(size: str, seed: str, only: str, console: Console) -> list[tuple[Part, Result, str]]:
    parts = [part for part in plan.parts(size) if only in part.name]
    console.print(f"size {size}, seed {seed}: run again with --size {size} --seed {seed}")
    outcome = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("chaos", total=sum(part.times * part.faults for part in parts))
        for part in parts:
            progress.update(bar, description=part.name)
            result, complaint = run_part(part, seed, lambda: progress.advance(bar))
            outcome.append((part, result, complaint))
            console.print(f"{part.name}: {complaint or 'right'} ({result.seconds:.0f} s)")
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--size", choices=("short", "chaos", "soak"), default="chaos")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--only", default="", help="parts whose name holds this")
    parser.add_argument("--json", type=Path, help="write the figures there")
    args = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    outcome = run(args.size, args.seed, args.only, console)
    report.show(console, outcome)
    console.print(f"seed {args.seed}")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(report.as_json(args.seed, args.size, outcome), indent=2) + "\n")
    return int(any(complaint for _, _, complaint in outcome))


if __name__ == "__main__":
    sys.exit(main())
