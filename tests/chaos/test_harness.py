"""A short run of the harness: promises hold under faults, and controls show that there were faults."""

import sys

import pytest
from rich.console import Console

from tests.chaos import __main__ as harness
from tests.chaos import plan, report

SEED = "test"


@pytest.mark.timeout(900)
def test_promises_hold_and_controls_break() -> None:
    """Each acknowledged sample once where Redis kept its data, no silent loss where not, and plain XADD does worse."""
    console = Console(file=sys.stdout, width=harness.WIDTH)
    outcome = harness.run(plan.parts("short"), SEED, console, lambda _: None, minutes=5)
    report.show(console, outcome)
    assert [(part.name, complaint) for part, _, complaint in outcome if complaint] == []
    assert {part.is_control for part, _, _ in outcome} == {True, False}
