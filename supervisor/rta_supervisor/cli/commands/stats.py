"""`rta-supervisor stats`: counts of the last minutes, hours or day, as bars."""

from collections.abc import Sequence
from typing import Final

import click

from rta_supervisor.cli import options, output
from rta_supervisor.observe import history
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot

BARS: Final = "·▁▂▃▄▅▆▇█"
ASCII_BARS: Final = " .:-=+*%#"
"""For terminals that can't show the others. The first one is for a count of zero."""

WIDTH: Final = 60
"""Columns of a line of bars. Where there are more slots, several share a bar."""

TITLES: Final = {
    "opened": "sessions opened",
    "closed": "sessions closed",
    "requests": "requests",
    "reports": "reports",
    "bursts": "bursts",
    "samples": "samples",
    "bytes": "bytes stored",
    "trimmed": "entries trimmed",
    "dead_letters": "dead letters",
    "redelivered": "redelivered",
    "evicted": "evicted unread",
    "data_losses": "losses of data",
}


@click.command("stats")
@click.option(
    "--last", type=click.Choice(list(history.SCALES)), default="5m", show_default=True, help="The period that is shown."
)
@options.as_json
@options.with_settings
def command(config: settings.Settings, last: str, as_json: bool) -> None:
    """Show counts of all supervisors in the last minutes, hours or day, as bars.

    Kept in Redis for a day, in steps of 5 s, 100 s and 1000 s. No Prometheus is needed.

    \b
    Examples:  rta-supervisor stats
               rta-supervisor stats --last 24h
               rta-supervisor stats --last 2h --json | jq .counts.samples
    """
    recent = one_shot.run(config, lambda link: history.read_history(link, config.keys, history.SCALES[last]))
    if as_json:
        output.print_json(recent)
        return
    console = output.console()
    bars = BARS if console.encoding.startswith("utf") else ASCII_BARS
    table = output.table(
        "", f"last {last}, {recent.slot_s} s a slot", "total", "most a second", right=("total", "most a second")
    )
    for name, counts in recent.counts.items():
        rate = max(counts) / recent.slot_s
        peak = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}" if rate else output.EMPTY_CELL
        table.add_row(TITLES.get(name, output.escape(name)), sparkline(counts, bars), f"{sum(counts):,}", peak)
    console.print(table)


def sparkline(counts: Sequence[int], bars: str = BARS, width: int = WIDTH) -> str:
    """Bars in proportion to the highest count. A count above zero has at least the lowest bar."""
    step = max(-(-len(counts) // width), 1)
    sums = [sum(counts[start : start + step]) for start in range(0, len(counts), step)]
    highest = max(sums, default=0)
    levels = len(bars) - 1
    return "".join(bars[0] if not total else bars[1 + (total * levels - 1) // highest] for total in sums)
