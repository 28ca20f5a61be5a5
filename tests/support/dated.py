"""A supervisor for which it is another day: the one whose number the file has that RTA_TEST_DAYS names. A program.

Only what is decided by the day is decided so: deadlines and silence go by the real clock.
"""

import os
import sys
from pathlib import Path

from rta_supervisor import cli, daemon, life, settings
from rta_supervisor.clock import now_ms
from rta_supervisor.days import index, sweep
from rta_supervisor.link import Link
from rta_wire import days

_path = Path(os.environ["RTA_TEST_DAYS"])


def dated_ms() -> int:
    return int(_path.read_text()) * days.DAY_MS + now_ms() % days.DAY_MS


class Days(index.Days):
    def __init__(self, link: Link, config: settings.Settings, _: object = None) -> None:
        super().__init__(link, config, dated_ms)


class Sweep(sweep.Sweep):
    def __init__(self, link: Link, config: settings.Settings) -> None:
        super().__init__(link, config, dated_ms, lambda: 0)


if __name__ == "__main__":
    for module in (daemon, life):
        vars(module)["Days"] = Days
    vars(sweep)["Sweep"] = Sweep
    sys.exit(cli.main())
