"""python -m bench [module ...] [--only TEXT] [--quick] [--rounds N]: runs all benchmarks, or those of some modules.

Prints one table, writes build/bench.json and exits 1 where a ratio is on the wrong side of its bar.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import measure

OUT = Path("build/bench.json")
ROUNDS = 7
QUICK_ROUNDS = 1


def modules() -> list[str]:
    """Every module with benchmarks."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if "\ndef bench_" in path.read_text())


def cases(names: list[str], *, quick: bool) -> Iterator[measure.Case]:
    """The cases of some modules."""
    for name in names:
        module = importlib.import_module(f"bench.{name}")
        for function in (value for key, value in vars(module).items() if key.startswith("bench_")):
            yield from function(quick)


def figure(value: float) -> str:
    """A number that people can read."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.4g}"


def table(results: list[measure.Result]) -> Table:
    """All results, one line each."""
    made = Table(title="benchmarks: ratio of ours to the reference, median (min .. max)")
    made.add_column("what")
    for column in ("ours", "reference", "ratio", "bar"):
        made.add_column(column, justify="right")
    made.add_column("")
    for one in results:
        made.add_row(
            one.name,
            f"{figure(one.ours)} {one.unit}",
            f"{figure(one.reference)} {one.unit}",
            f"{one.ratio:.3g} ({one.ratio_min:.3g} .. {one.ratio_max:.3g})",
            f"{'at most' if one.at_most else 'at least'} {one.bar:g}",
            "[green]ok[/]" if one.ok else "[red]over[/]" if one.at_most else "[red]under[/]",
        )
    return made


def main() -> int:
    """Runs what was asked for; the exit code says whether every bar was met."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("module", nargs="*", choices=[*modules(), []], help="one of: " + ", ".join(modules()))
    parser.add_argument("--quick", action="store_true", help="as little as shows that it runs; bars do not count")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this text in their name")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of ours and reference in turn")
    parser.add_argument("--out", type=Path, default=OUT, help="where the figures go")
    options = parser.parse_args()
    rounds = QUICK_ROUNDS if options.quick else options.rounds
    todo = [case for case in cases(options.module or modules(), quick=options.quick) if options.only in case.name]
    if not todo:
        parser.error(f"no case has {options.only!r} in its name")
    progress = Console(stderr=True)
    results = [measure.run(case, rounds) for case in track(todo, "measuring", console=progress, transient=True)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps([one._asdict() for one in results], indent=1) + "\n")
    Console(width=None if sys.stdout.isatty() else 160).print(table(results))
    return 0 if options.quick or all(one.ok for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
