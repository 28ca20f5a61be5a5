"""Which settings can change while the supervisor or a gateway runs, and what a changed configuration changes."""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from rta_supervisor.settings import settings as settings_

RELOADABLE: Final = (
    *("log", "limits", "trim", "other_producers", "days", "compact", "session", "node.drain_s"),
    *("archive.path", "archive.required", "archive.max_bytes", "archive.alarm_at"),
    *("archive.level", "archive.split_bytes", "archive.sources"),
    *("catalogue.flush_s", "catalogue.progress_flush_s"),
    *("control.retry_s", "control.pickup_s", "control.expire_s"),
    *("control.max_unacknowledged", "control.reply_ttl_s", "control.dead_letters_max"),
)
"""Settings or whole sections that take effect at once. All others are built into connections, keys and files."""

GATEWAY_SECTIONS: Final = ("redis", "keys", "catalogue", "archive", "gateway", "log")
"""What a gateway reads of the settings. What the supervisor reads besides is none of its business."""

GATEWAY_RELOADABLE: Final = (
    *("log", "archive", "gateway.label", "gateway.description", "gateway.addresses"),
    *("gateway.viewers", "gateway.token_viewers", "gateway.address_viewers"),
    *("gateway.queue_bytes", "gateway.queued_bytes", "gateway.stuck_s", "gateway.backfill_s"),
    *("gateway.request_timeout_s", "gateway.query_chars", "gateway.query_depth"),
)
"""The same of a gateway. Files with tokens, keys and certificates are read again whenever they change."""


class SettingsChange(msgspec.Struct, frozen=True):
    """The difference between the settings in force and a new configuration."""

    settings: settings_.Settings
    """The settings after the reload: new values of reloadable settings, old values of all others."""
    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]


def compare(
    old: settings_.Settings,
    new: settings_.Settings,
    reloadable: Collection[str] = RELOADABLE,
    sections: Collection[str] = settings_.Settings.__struct_fields__,
) -> SettingsChange:
    """What a reload changes, and what waits for a restart. Other `sections` are not looked at."""
    document: dict[str, Any] = msgspec.to_builtins(old)
    applied: list[str] = []
    needs_restart: list[str] = []
    for section, values in msgspec.to_builtins(new).items():
        if section not in sections:
            continue
        for name, value in values.items():
            dotted = f"{section}.{name}"
            if document[section][name] == value:
                continue
            if section in reloadable or dotted in reloadable:
                document[section][name] = value
                applied.append(dotted)
            else:
                needs_restart.append(dotted)
    return SettingsChange(msgspec.convert(document, settings_.Settings), tuple(applied), tuple(needs_restart))


def apply(current: settings_.Settings, change: SettingsChange) -> None:
    """Put a change into force by replacing the sections of `current`, which all parts of the daemon share."""
    for section in current.__struct_fields__:
        setattr(current, section, getattr(change.settings, section))
