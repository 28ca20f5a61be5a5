"""What the demo prints at its end: commands to go on with, which work as they stand."""

import shlex
import shutil
import sys
from pathlib import Path

from rta_supervisor.demo import cars
from rta_supervisor.settings.sections.servers.http import HttpSettings
from rta_wire import redis_url as redis_urls


def next_steps(url: str, names: cars.RunNames, *, is_kept: bool) -> list[str]:
    """Lines for a person who saw the demo; with commands on its sessions where these are kept."""
    page = f"http://127.0.0.1:{HttpSettings().port}/ui"
    if not is_kept:
        return [
            f"To see cars drive, in a browser, until Ctrl-C:  {_watch()}",
            "Everything of this run is removed again. On a Redis or Valkey of yours it can stay, to be looked at:",
            f"  redis-server {_conf('redis.conf')}",
            f"  {_program()} demo --redis-url redis://127.0.0.1:6379/0 --keep",
            f"docs/quickstart.md: a session of your own, watched by `tail` and in a browser ({page})",
            "docs/writers.md: writing from Spark, and reading back with spark.read",
        ]
    shown_url, session = redis_urls.redact(url), names.session(1)
    return [
        "The sessions are kept for a day, their samples until the stream is trimmed:",
        f'  spark.read.format("rta").options(redisUrl="{shown_url}", session="{session}").load().show()',
        f"  {_program()} run --redis-url {shlex.quote(shown_url)}  # a supervisor of your own; its live page: {page}",
        "docs/quickstart.md: a session of your own, followed with `tail`; docs/operating.md: on real hosts",
    ]


def _watch() -> str:
    """The command for it: of the Makefile in a clone."""
    is_clone = (Path.cwd() / "Makefile").is_file() and Path(__file__).is_relative_to(Path.cwd())
    return "make watch" if is_clone else f"{_program()} demo --watch ./watched"


def _program() -> str:
    """How this program is called: by its name where that is on the PATH, else by its path."""
    name = "rta-supervisor"
    return name if shutil.which(name) else shlex.quote(_shortened(Path(sys.executable).with_name(name)))


def _conf(name: str) -> str:
    """A file of conf/ in a clone; elsewhere the option that matters most."""
    path = Path(__file__).parents[3] / "conf" / name
    return shlex.quote(_shortened(path)) if path.is_file() else "--maxmemory-policy noeviction"


def _shortened(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
