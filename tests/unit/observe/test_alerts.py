"""The alert rules: Prometheus takes them, each has a case in `alerts_test.yml`, and each case comes out as it says."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RULES = ROOT / "conf/prometheus/alerts.yml"
CASES = Path(__file__).with_name("alerts_test.yml")


@pytest.mark.parametrize("arguments", [["check", "rules", RULES], ["test", "rules", CASES]], ids=["check", "test"])
@pytest.mark.skipif(
    not shutil.which("promtool"), reason="there is no promtool: Debian has it in the package prometheus"
)
def test_prometheus_takes_the_rules(arguments: list[str | Path]) -> None:
    """`promtool` finds no fault in the rules, and alerts fire in the cases where they should and in no other."""
    completed = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr


def test_each_alert_has_a_case_in_which_it_fires() -> None:
    """Also where promtool is not installed: no rule is added without a case."""
    fires = set(re.findall(r"alertname: (\w+)\n +exp_alerts:", CASES.read_text()))
    assert fires == set(re.findall(r"- alert: (\w+)", RULES.read_text()))
