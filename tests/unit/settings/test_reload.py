"""Settings that change while the supervisor runs, and those that can't."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.embedded import server
from rta_supervisor.runtime import wiring
from rta_supervisor.settings import reload, settings
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_supervisor.settings.sections.compaction import CompactSettings
from rta_supervisor.settings.sections.days import DaysSettings

OLD: dict[str, dict[str, Any]] = msgspec.to_builtins(settings.Settings())
RELOADED = (
    *(settings.SessionSettings, settings.TrimSettings, settings.ControlSettings),
    *(DaysSettings, CompactSettings, ArchiveSettings, settings.LogSettings),
)
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
    effective = msgspec.to_builtins(change.settings)
    for section, name in NAMES:
        source = document if f"{section}.{name}" in change.applied else OLD
        assert effective[section][name] == source[section][name]


def test_what_can_be_reloaded_is_there() -> None:
    """Each name in the list is a setting or a section, so that none is spelt wrongly."""
    known = {*OLD, *(f"{section}.{name}" for section, name in NAMES)}
    assert set(reload.RELOADABLE) <= known


def sections_kept(part: object, seen: set[int]) -> list[str]:
    """Attributes of a part, and of what it is made of, that hold a section of the settings."""
    if id(part) in seen or isinstance(part, settings.Settings):
        return []
    seen.add(id(part))
    if isinstance(part, tuple):
        return [found for member in part for found in sections_kept(member, seen)]
    if not type(part).__module__.startswith("rta_supervisor") or not hasattr(part, "__dict__"):
        return []
    found = [f"{type(part).__name__}.{name}" for name, value in vars(part).items() if isinstance(value, RELOADED)]
    return found + [name for value in vars(part).values() for name in sections_kept(value, seen)]


async def test_no_part_keeps_a_section_that_can_be_reloaded(tmp_path: Any) -> None:
    """Everything reads such sections from the settings in force, so that a reload reaches it."""
    with server.running() as own:
        current = settings.load(environ={"RTA_REDIS__URL": own.url, "RTA_CATALOGUE__PATH": str(tmp_path / "c.sqlite")})
        parts = wiring.build(current)
        seen: set[int] = set()
        assert sections_kept(parts, seen) == []
        assert len(seen) > 30
        await parts.link.close()
        await parts.catalogue.catalogue.close()


def test_a_change_in_force_is_seen_by_all() -> None:
    """What was given the settings at the start sees the new ones, and what needs a restart stays."""
    current = settings.Settings()
    document = msgspec.to_builtins(current)
    document["session"]["refresh_ms"] = 7
    document["redis"]["url"] = "redis://elsewhere"
    reload.apply(current, reload.compare(current, msgspec.convert(document, settings.Settings)))
    assert current.session.refresh_ms == 7
    assert current.redis.url == settings.Settings().redis.url
