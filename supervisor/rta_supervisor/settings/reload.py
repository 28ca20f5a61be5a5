"""Which settings can change while the supervisor runs, and what a changed configuration changes."""

from typing import Any, Final

import msgspec

from rta_supervisor.settings import settings as settings_

RELOADABLE: Final = (
    *("log", "limits", "trim", "other_producers", "days", "compact", "archive", "session", "node.drain_s"),
    *("catalogue.flush_s", "catalogue.progress_flush_s"),
    *("control.retry_s", "control.pickup_s", "control.expire_s"),
    *("control.max_unacknowledged", "control.reply_ttl_s", "control.dead_letters_max"),
)
"""Settings or whole sections that take effect at once. All others are built into connections, keys and files."""


class SettingsChange(msgspec.Struct, frozen=True):
    """The difference between the settings in force and a new configuration."""

    settings: settings_.Settings
    """The settings after the reload: new values of reloadable settings, old values of all others."""
    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]


def compare(old: settings_.Settings, new: settings_.Settings) -> SettingsChange:
    """What a reload changes, and what waits for a restart."""
    document: dict[str, Any] = msgspec.to_builtins(old)
    applied: list[str] = []
    needs_restart: list[str] = []
    for section, values in msgspec.to_builtins(new).items():
        for name, value in values.items():
            dotted = f"{section}.{name}"
            if document[section][name] == value:
                continue
            if section in RELOADABLE or dotted in RELOADABLE:
                document[section][name] = value
                applied.append(dotted)
            else:
                needs_restart.append(dotted)
    return SettingsChange(msgspec.convert(document, settings_.Settings), tuple(applied), tuple(needs_restart))


def apply(current: settings_.Settings, change: SettingsChange) -> None:
    """Put a change into force by replacing the sections of `current`, which all parts of the daemon share."""
    for section in current.__struct_fields__:
        setattr(current, section, getattr(change.settings, section))
