"""Settings that change while the supervisor runs, and those that can't."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.settings import reload, settings

OLD: dict[str, dict[str, Any]] = msgspec.to_builtins(settings.Settings())
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
