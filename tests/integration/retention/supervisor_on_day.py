"""A supervisor whose days of sources are set by a test. A program: the file that RTA_TEST_DAYS names has the number of
the day.

Only days are set: deadlines and silence go by the real clock.
"""

import os
import sys
from pathlib import Path
from types import ModuleType

from rta_supervisor.cli import entry as cli_entry
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import day_index, day_sweep
from rta_supervisor.runtime import wiring
from rta_supervisor.session import service as session_service
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import day_streams

_path = Path(os.environ["RTA_TEST_DAYS"])


def dated_ms() -> int:
    """The time of day by the real clock, on the day that the test has set."""
    return int(_path.read_text()) * day_streams.DAY_MS + now_ms() % day_streams.DAY_MS


class DatedDayIndex(day_index.DayIndex):
    def __init__(self, link: Link, config: settings.Settings, _: object = None) -> None:
        super().__init__(link, config, dated_ms)


class DatedDaySweep(day_sweep.DaySweep):
    def __init__(self, link: Link, config: settings.Settings) -> None:
        super().__init__(link, config, dated_ms, lambda: 0)


def replace_in(module: ModuleType, original: type, replacement: type) -> None:
    """Have a module use another class. Fails where it does not use the original by its name."""
    assert vars(module)[original.__name__] is original
    vars(module)[original.__name__] = replacement


if __name__ == "__main__":
    for module in (wiring, session_service):
        replace_in(module, day_index.DayIndex, DatedDayIndex)
    replace_in(day_sweep, day_sweep.DaySweep, DatedDaySweep)
    sys.exit(cli_entry.main())
