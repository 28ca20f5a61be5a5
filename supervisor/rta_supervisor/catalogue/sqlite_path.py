"""Where the file of a SQLite catalogue is, by the settings and the environment."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rta_supervisor.settings import settings
from rta_wire import errors

SYSTEM_STATE: Final = Path("/var/lib/rta-supervisor")
"""The state directory of the systemd service."""


def catalogue_path(config: settings.Settings, environ: Mapping[str, str] = os.environ) -> Path:
    """The file to use: as configured, else in the state directory that systemd made, else in that of the user."""
    if config.catalogue.path:
        return Path(config.catalogue.path)
    if state_directory := environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(state_directory) / _file_name(config)
    if state_home := environ.get("XDG_STATE_HOME", ""):
        return Path(state_home) / "rta-supervisor" / _file_name(config)
    try:
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError as error:
        raise errors.BadConfiguration(
            where="catalogue.path", reason="there is no home directory for the default: name a file"
        ) from error
    return home / ".local" / "state" / "rta-supervisor" / _file_name(config)


def existing_path(config: settings.Settings, environ: Mapping[str, str] = os.environ) -> Path:
    """The file to read: that of the user, or that of the service on this host where the user has none."""
    path = catalogue_path(config, environ)
    service_path = SYSTEM_STATE / path.name
    is_of_service = not config.catalogue.path and not path.exists() and os.path.exists(service_path)  # noqa: PTH110 - may be hidden
    return service_path if is_of_service else path


def deployment_id(config: settings.Settings) -> str:
    """A short name of the server and the key prefix, so that sessions of one are never put back into another."""
    address = config.redis.url.partition("://")[2].rpartition("@")[2]
    return hashlib.sha256(f"{address} {config.keys.prefix}".encode()).hexdigest()[:8]


def _file_name(config: settings.Settings) -> str:
    return f"catalogue-{deployment_id(config)}.sqlite"
