"""Bars of counts in the output of stats."""

from rta_supervisor.cli.commands.stats import BARS, EMPTY_BAR, sparkline


def test_bars() -> None:
    """In proportion, and what is little is not nothing."""
    assert sparkline([0, 1, 50, 100], width=4) == f"{EMPTY_BAR}{BARS[0]}{BARS[3]}{BARS[7]}"
    assert sparkline([]) == ""
    assert len(sparkline(list(range(86)))) <= 60
