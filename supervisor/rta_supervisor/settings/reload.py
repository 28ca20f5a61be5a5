"""Which settings can change while the supervisor runs, and what a changed file means for it."""

from typing import Any, Final, Protocol

import msgspec

from rta_supervisor.settings import settings

RELOADABLE: Final = (
    *("log", "trim", "days", "compact", "archive", "session", "node.drain_s"),
    *("catalogue.flush_s", "catalogue.progress_flush_s"),
    *("control.retry_s", "control.pickup_s", "control.expire_s"),
    *("control.max_unacknowledged", "control.reply_ttl_s", "control.dead_letters_max"),
)
"""Settings, or whole sections. Everything else is built into connections, keys and files when the supervisor starts."""


class Reconfigurable(Protocol):
    """Something that goes on with other settings."""

    def reconfigure(self, config: settings.Settings) -> None: ...


class SettingsChange(msgspec.Struct, frozen=True):
    """What a new configuration brings."""

    config: settings.Settings
    """To go on with: new where that can be, as it was elsewhere."""
    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]


def compare(old: settings.Settings, new: settings.Settings) -> SettingsChange:
    document: dict[str, Any] = msgspec.to_builtins(old)
    taken: list[str] = []
    needs_restart: list[str] = []
    for section, values in msgspec.to_builtins(new).items():
        for name, value in values.items():
            dotted = f"{section}.{name}"
            if document[section][name] == value:
                continue
            if section in RELOADABLE or dotted in RELOADABLE:
                document[section][name] = value
                taken.append(dotted)
            else:
                needs_restart.append(dotted)
    return SettingsChange(msgspec.convert(document, settings.Settings), tuple(taken), tuple(needs_restart))
