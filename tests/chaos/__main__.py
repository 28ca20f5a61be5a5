"""`make chaos` and `make soak`: break everything, judge every sample, print tables; 1 where a promise broke."""

import argparse
import json
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rta_wire import errors
from tests.chaos import plan, report
from tests.chaos.plan import Part
from tests.chaos.result import Outcome, Result, merged

WIDTH: Final = 120
LAST_WORDS: Final = 300


def run_part(part: Part, seed: str, advance: plan.Advance, is_time_up: Callable[[], bool]) -> Iterator[Outcome]:
    """What is known of a part after each of its runs. Each run has to hold by itself; controls hold together."""
    total = Result(runs=0)
    complaint = ""
    for number in range(part.times):
        if number and is_time_up():
            return
        began_s = time.monotonic()
        run_seed = f"{seed}/{part.name}/{number}"
        try:
            result = part.run(run_seed, advance)
        except (AssertionError, subprocess.TimeoutExpired, errors.RtaError) as error:
            # What never came true is a run that went wrong, and no reason to give up the others.
            result, problem = Result(), f"it did not end: {str(error)[-LAST_WORDS:]}"
        else:
            problem = ""
        result.seconds = time.monotonic() - began_s
        total.add(result)
        problem = problem or part.demand(total if part.is_control else result)
        if part.is_control:
            complaint = problem
        elif problem:
            complaint = complaint or f"{problem} (seed {run_seed})"
        yield Outcome(part.name, part.is_control, total, complaint)


def run(
    parts: Sequence[Part], seed: str, console: Console, save: Callable[[list[Outcome]], None], minutes: float
) -> list[Outcome]:
    """All parts, one after the other. When the time is up each part still to come has one run."""
    ends_s = time.monotonic() + minutes * 60
    outcomes: list[Outcome] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("chaos", total=sum(part.times * part.faults for part in parts))
        for part in parts:
            progress.update(bar, description=part.name)
            before = list(outcomes)
            for outcome in run_part(part, seed, lambda: progress.advance(bar), lambda: time.monotonic() > ends_s):
                outcomes = [*before, outcome]
                save(outcomes)
                result, verdict = outcome.result, outcome.complaint or "right"
                console.print(f"{part.name}, {result.runs} of {part.times}: {verdict} ({result.seconds:.0f} s)")
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--size", choices=("short", "chaos", "soak"), default="chaos")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--only", default="", help="parts with this in their name, a regular expression")
    parser.add_argument("--minutes", type=float, default=120, help="after that, no part has more than one run")
    parser.add_argument("--json", type=Path, help="write the figures there, after each run")
    parser.add_argument("--merge", type=Path, nargs="+", help="run nothing: add up and judge what --json wrote")
    args = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    if args.merge:
        return int(not show_merged(console, args.merge))
    console.print(f"size {args.size}, seed {args.seed}: run again with --size {args.size} --seed {args.seed}")

    def save(outcomes: list[Outcome]) -> None:
        if args.json:
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps(report.as_json(args.seed, args.size, outcomes), indent=2) + "\n")

    parts = [part for part in plan.parts(args.size) if re.search(args.only, part.name, re.IGNORECASE)]
    if not parts:
        parser.error(f"no part has {args.only!r} in its name")
    outcomes = run(parts, args.seed, console, save, args.minutes)
    is_right = report.show(console, args.size, outcomes)
    console.print(f"seed {args.seed}")
    return int(not is_right)


def show_merged(console: Console, paths: Sequence[Path]) -> bool:
    """Runs that were made one by one, judged as if they had been one. They have to be of one size."""
    figures = [json.loads(path.read_text()) for path in paths]
    [size] = {run_figures["size"] for run_figures in figures}
    console.print(f"size {size}, seeds {', '.join(sorted({run_figures['seed'] for run_figures in figures}))}")
    return report.show(
        console, size, merged(outcome for run_figures in figures for outcome in report.from_json(run_figures))
    )


if __name__ == "__main__":
    sys.exit(main())
