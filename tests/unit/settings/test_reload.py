"""Settings that change while the supervisor runs, and those that can't."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.settings import reload, settings

OLD: dict[str, dict[str, Any]] = msgspec.to_builtins(settings.Settings())
NAMES = [(section, name) for section, values in OLD.items() for name in values if values[name] != {}]


def different(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value + "x"
    return (*value, "other") if isinstance(value, tuple) else value + 1


@given(st.sets(st.sampled_from(NAMES)))
def test_each_change_is_applied_or_needs_a_restart(changed: set[tuple[str, str]]) -> None:
    """Reloadable settings have their new value; all others keep the old one and are named as waiting for a restart."""
    document = msgspec.to_builtins(settings.Settings())
    for section, name in changed:
        document[section][name] = different(document[section][name])
    new = msgspec.convert(document, settings.Settings, strict=False)
    change = reload.compare(settings.Settings(), new)
    assert set(change.applied) | set(change.needs_restart) == {f"{section}.{name}" for section, name in changed}
    assert not set(change.applied) & set(change.needs_restart)
    effective = msgspec.to_builtins(change.settings)
    for section, name in NAMES:
        source = document if f"{section}.{name}" in change.applied else OLD
        assert effective[section][name] == source[section][name]


def test_reloadable_settings_exist() -> None:
    """Each reloadable name is that of a setting or a section, so that none is spelt wrongly."""
    names = {*OLD, *(f"{section}.{name}" for section, values in OLD.items() for name in values)}
    assert {*reload.RELOADABLE, *reload.GATEWAY_RELOADABLE, *reload.GATEWAY_SECTIONS} <= names


def test_runs_of_the_archive_begin_with_a_supervisor() -> None:
    """Whether there are any is decided once: their duty has a lease."""
    new = msgspec.convert({"archive": {"path": "/srv/archive", "every_s": 900.0, "max_bytes": 5}}, settings.Settings)
    change = reload.compare(settings.Settings(), new)
    assert change.needs_restart == ("archive.every_s",)
    assert set(change.applied) == {"archive.path", "archive.max_bytes"}
    assert change.settings.archive.every_s == 0
