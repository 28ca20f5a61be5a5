"""Settings that change while the supervisor runs, and those that can't."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.embedded import server
from rta_supervisor.runtime import daemon
from rta_supervisor.settings import reload, settings
from rta_supervisor.settings.sections import days as sections_days

OLD: dict[str, dict[str, Any]] = msgspec.to_builtins(settings.Settings())
KINDS = (settings.Settings, settings.SessionSettings, settings.TrimSettings, sections_days.DaysSettings)
NAMES = [(section, name) for section, values in OLD.items() for name in values if values[name] != {}]


def other(value: Any) -> Any:
    """A value that is not the same."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value + "x"
    return (*value, "other") if isinstance(value, tuple) else value + 1


@given(st.sets(st.sampled_from(NAMES)))
def test_each_change_is_taken_or_named(changed: set[tuple[str, str]]) -> None:
    """Whatever changes: what can be taken is in effect, the rest is as it was and is named."""
    document = msgspec.to_builtins(settings.Settings())
    for section, name in changed:
        document[section][name] = other(document[section][name])
    new = msgspec.convert(document, settings.Settings, strict=False)
    change = reload.compare(settings.Settings(), new)
    assert set(change.applied) | set(change.needs_restart) == {f"{section}.{name}" for section, name in changed}
    assert not set(change.applied) & set(change.needs_restart)
    effective = msgspec.to_builtins(change.config)
    for section, name in NAMES:
        source = document if f"{section}.{name}" in change.applied else OLD
        assert effective[section][name] == source[section][name]


def test_what_can_be_reloaded_is_there() -> None:
    """Each name in the list is a setting or a section, so that none is spelt wrongly."""
    known = {*OLD, *(f"{section}.{name}" for section, name in NAMES)}
    assert set(reload.RELOADABLE) <= known


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
