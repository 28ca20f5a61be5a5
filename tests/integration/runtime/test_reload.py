"""A reload of a supervisor reaches every part of it."""

from typing import Any

import msgspec

from rta_supervisor.embedded import server
from rta_supervisor.runtime import wiring
from rta_supervisor.settings import reload, settings
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_supervisor.settings.sections.compact import CompactSettings
from rta_supervisor.settings.sections.days import DaysSettings

RELOADED = (
    *(settings.SessionSettings, settings.TrimSettings, settings.ControlSettings, settings.LogSettings),
    *(DaysSettings, CompactSettings, ArchiveSettings),
)


def sections_kept(part: object, visited: set[int]) -> list[str]:
    """Attributes of a part, and of what it is made of, that hold a section of the settings."""
    if id(part) in visited or isinstance(part, settings.Settings):
        return []
    visited.add(id(part))
    if isinstance(part, tuple):
        return [name for member in part for name in sections_kept(member, visited)]
    if not type(part).__module__.startswith("rta_supervisor") or not hasattr(part, "__dict__"):
        return []
    kept = [f"{type(part).__name__}.{name}" for name, value in vars(part).items() if isinstance(value, RELOADED)]
    return kept + [name for value in vars(part).values() for name in sections_kept(value, visited)]


async def test_no_part_keeps_a_section_that_can_be_reloaded(tmp_path: Any) -> None:
    """Everything reads such sections from the settings in force, so that a reload reaches it."""
    with server.running() as running:
        current = settings.load(
            environ={"RTA_REDIS__URL": running.url, "RTA_CATALOGUE__PATH": str(tmp_path / "c.sqlite")}
        )
        parts = wiring.build(current)
        visited: set[int] = set()
        assert sections_kept(parts, visited) == []
        assert len(visited) > 30
        await parts.link.close()
        await parts.catalogue.repository.close()


def test_a_change_in_force_is_seen_by_all() -> None:
    """What was given the settings at the start sees the new ones, and what needs a restart stays."""
    current = settings.Settings()
    document = msgspec.to_builtins(current)
    document["session"]["refresh_ms"] = 7
    document["redis"]["url"] = "redis://elsewhere"
    reload.apply(current, reload.compare(current, msgspec.convert(document, settings.Settings)))
    assert current.session.refresh_ms == 7
    assert current.redis.url == settings.Settings().redis.url
