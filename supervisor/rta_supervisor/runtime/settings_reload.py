"""What SIGHUP does, in a supervisor and in a gateway: settings are read again, and those that can change do."""

import time
from collections.abc import Callable, Collection

from rta_supervisor.diagnostics import log
from rta_supervisor.runtime import systemd
from rta_supervisor.settings import redaction, reload, settings
from rta_wire import errors


def reload_settings(
    config: settings.Settings,
    load: Callable[[], settings.Settings] | None,
    describe: Callable[[], str],
    reloadable: Collection[str] = reload.RELOADABLE,
    sections: Collection[str] = settings.Settings.__struct_fields__,
) -> None:
    """Apply what can be applied of the settings as they are now; a mistake in them changes nothing.

    `describe` gives the status for systemd.
    """
    systemd.notify(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
    try:
        if load is not None:
            _apply(config, reload.compare(config, load(), reloadable, sections))
    except errors.RtaError as error:
        log.get().error("configuration_refused", error=str(error))
    systemd.notify(f"READY=1\nSTATUS={describe()}")


def _apply(config: settings.Settings, change: reload.SettingsChange) -> None:
    reload.apply(config, change)
    log.configure(config.log, redaction.secrets(config))
    log.get().info("configuration_reloaded", changed=change.applied)
    if change.needs_restart:
        log.get().warning("settings_need_restart", settings=change.needs_restart)
