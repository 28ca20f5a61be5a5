"""A short run of the harness: promises hold under faults, and controls show that there were faults."""

import io
import json
import re
import sys
from collections import Counter

import pytest
from rich.console import Console

from tests.chaos import __main__ as harness
from tests.chaos import plan, report, soak_targets
from tests.chaos.oracle import Verdict
from tests.chaos.result import Outcome, Result, merged

SEED = "test"


@pytest.mark.timeout(900)
def test_promises_hold_and_controls_break() -> None:
    """Each acknowledged sample once where Redis kept its data, no silent loss where not, and plain XADD does worse."""
    console = Console(file=sys.stdout, width=harness.WIDTH)
    outcomes = harness.run(plan.parts("short"), SEED, console, lambda _: None, minutes=5)
    report.show(console, "short", outcomes)
    assert [(outcome.name, outcome.complaint) for outcome in outcomes if outcome.complaint] == []
    assert {outcome.is_control for outcome in outcomes} == {True, False}


def kills(count: int, complaint: str = "") -> Outcome:
    result = Result(Counter({"driver killed": count}), Counter(closed=1), Verdict(samples=100, acknowledged=100))
    return Outcome("Spark drivers", is_control=False, result=result, complaint=complaint)


def printed(size: str, outcomes: list[Outcome]) -> tuple[bool, str]:
    written = io.StringIO()
    return report.show(Console(file=written, width=harness.WIDTH), size, outcomes), written.getvalue()


def test_figures_survive_the_way_into_a_file_and_add_up() -> None:
    """Runs that were made one by one count as one."""
    written = [json.loads(json.dumps(report.as_json(SEED, "soak", [kills(count)]))) for count in (20, 31)]
    [total] = merged(outcome for figures in written for outcome in report.from_json(figures))
    assert total.result.counts == {"driver killed": 51}
    assert (total.result.runs, total.result.verdict.samples) == (2, 200)


@pytest.mark.parametrize("name", soak_targets.SOAK)
def test_every_part_with_an_aim_is_part_of_a_soak(name: str) -> None:
    """An aim of a part that nobody runs would never be missed."""
    assert name in {part.name for part in plan.parts("soak")}


def test_a_soak_that_holds_too_little_is_not_right() -> None:
    """The table says what is missing. Shorter runs have no aims, and parts that were not run have none either."""
    is_right, text = printed("soak", [kills(49)])
    assert not is_right
    assert re.search(r"driver killed +\S +50 +\S +49 +\S +not reached", text)
    assert "task failed" not in text
    assert printed("chaos", [kills(49)])[0]


def test_a_complaint_outlives_a_merge() -> None:
    """One wrong run among right ones is not added away."""
    [total] = merged([kills(50), kills(50, "samples are lost"), kills(50)])
    is_right, text = printed("chaos", [total])
    assert not is_right
    assert "samples are lost" in text
