"""A supervisor for which it is another day: the one whose number the file has that RTA_TEST_DAYS names. A program.

Only what is decided by the day is decided so: deadlines and silence go by the real clock.
"""

import os
import sys
from pathlib import Path

from rta_supervisor.cli import entry as cli_entry
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import day_index, day_sweep
from rta_supervisor.runtime import daemon
from rta_supervisor.session import service as session_service
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import day_streams

_path = Path(os.environ["RTA_TEST_DAYS"])


def dated_ms() -> int:
    return int(_path.read_text()) * day_streams.DAY_MS + now_ms() % day_streams.DAY_MS


class Days(day_index.DayIndex):
    def __init__(self, link: Link, config: settings.Settings, _: object = None) -> None:
        super().__init__(link, config, dated_ms)


class Sweep(day_sweep.DaySweep):
    def __init__(self, link: Link, config: settings.Settings) -> None:
        super().__init__(link, config, dated_ms, lambda: 0)


if __name__ == "__main__":
    for module in (daemon, session_service):
        vars(module)["Days"] = Days
    vars(day_sweep)["Sweep"] = Sweep
    sys.exit(cli_entry.main())
