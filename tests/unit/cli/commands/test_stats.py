"""The bars that `stats` prints."""

from rta_supervisor.cli.commands.stats import ASCII_BARS, BARS, sparkline


def test_bars_are_in_proportion() -> None:
    """Bars grow with the counts, a small count has the lowest bar, and a line has at most 60 columns."""
    assert sparkline([0, 1, 50, 100], width=4) == f"{BARS[0]}{BARS[1]}{BARS[4]}{BARS[8]}"
    assert sparkline([0, 1, 50, 100], ASCII_BARS) == " .=#"
    assert sparkline([]) == ""
    assert len(sparkline(list(range(86)))) <= 60
