"""The benchmarks run and write what other tools read; how fast they are is not a matter for tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import measure

ROOT = Path(__file__).parents[3]


def test_a_quick_run_writes_every_field(tmp_path: Path) -> None:
    """One table on stdout, one list of objects in the file, and bars that do not count."""
    out = tmp_path / "made" / "bench.json"
    command = [sys.executable, "-m", "bench", "wire", "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    results = json.loads(out.read_text())
    assert len(results) >= 6
    for one in results:
        assert {"name", "ours", "reference", "ratio", "bar", "unit"} <= one.keys()
        assert one["ratio"] > 0
    assert done.stdout.count("at least") + done.stdout.count("at most") == len(results)


@pytest.mark.parametrize(
    ("ours", "bar", "at_most", "ok"),
    [(2.0, 1.5, False, True), (1.0, 1.5, False, False), (2.0, 1.5, True, False), (1.0, 1.5, True, True)],
)
def test_a_bar_is_a_lower_or_an_upper_one(ours: float, bar: float, at_most: bool, ok: bool) -> None:
    """The median ratio decides, on the side that the case asks for."""
    case = measure.Case("x", "y", measure.constant(ours), measure.constant(1), bar, at_most)
    assert measure.run(case, 3).ok is ok


def test_ours_and_the_reference_take_turns() -> None:
    """Each round runs both once, and who goes first changes."""
    seen: list[str] = []

    def note(who: str) -> float:
        seen.append(who)
        return 1.0

    measure.run(measure.Case("x", "y", lambda: note("o"), lambda: note("r"), 1), 4)
    assert "".join(seen) == "or" + "or" + "ro" + "or" + "ro"
