"""A reload of a supervisor: every part goes on with the new settings."""

from typing import Any

import msgspec

from rta_supervisor.embedded import server
from rta_supervisor.runtime import daemon
from rta_supervisor.settings import reload, settings
from rta_supervisor.settings.sections import days as sections_days

KINDS = (settings.Settings, settings.SessionSettings, settings.TrimSettings, sections_days.DaysSettings)


async def test_every_part_goes_on_with_the_new_settings(tmp_path: Any) -> None:
    """No part keeps an old copy of a section that counts as reloaded."""
    with server.running() as own:
        old = settings.load(environ={"RTA_REDIS__URL": own.url, "RTA_CATALOGUE__PATH": str(tmp_path / "c.sqlite")})
        running = daemon.Daemon(old)
        sections = {
            "session": {"refresh_ms": 7},
            "trim": {"max_entries": 7},
            "control": {"retry_s": 7.0},
            "days": {"keep_days": 9},
        }
        document: dict[str, Any] = msgspec.to_builtins(old)
        for section, values in sections.items():
            document[section] |= values
        new = msgspec.convert(document, settings.Settings)
        running._take(reload.compare(old, new))
        stale = [
            f"{type(part).__name__}.{name}"
            for part in vars(running).values()
            if type(part).__module__.startswith("rta_supervisor")
            and type(part).__module__ != "rta_supervisor.observe.sampler"
            for name, value in (vars(part).items() if hasattr(part, "__dict__") else ())
            if isinstance(value, KINDS) and value in (old, old.session, old.trim, old.days)
        ]
        assert stale == []
        assert running._life._days._config == running._trimmer._days._config == new.days
        assert running._trimmer._days._days._config == new.days
        assert running._request_lane._config.retry_s == running._report_lane._config.retry_s == 7.0
        await running._link.close()
        await running._catalogue.close()
