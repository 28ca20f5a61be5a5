"""The configuration: what can be set, its defaults, and how files, environment and command line make one value.

`conf/supervisor.toml` shows every key. RTA_REDIS__URL in the environment overrides `url` in `[redis]`, and so on.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rta_wire import errors
from rta_wire import keys as keys_

ENVIRONMENT_PREFIX: Final = "RTA_"
DAY_S: Final = 24 * 3600
LEASE_MIN_S: Final = 0.2


class RedisSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str = "redis://127.0.0.1:6379/0"
    password_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    timeout_s: float = 5.0
    startup_patience_s: float = 10.0
    allow_eviction: bool = False


class ControlSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    principals: tuple[str, ...] = (keys_.DEFAULT_PRINCIPAL,)
    operators: tuple[str, ...] = (keys_.DEFAULT_OPERATOR,)
    stream_prefixes: dict[str, str] = {}
    batch: int = 1000
    retry_s: float = 30.0
    pickup_s: float = 120.0
    expire_s: float = 600.0
    max_unacknowledged: int = 10_000
    reply_ttl_s: int = 20 * 60
    dead_letters_max: int = 10_000

    @property
    def askers(self) -> tuple[str, ...]:
        """Everybody whose requests are read."""
        return tuple(dict.fromkeys((*self.principals, *self.operators)))


class SessionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    open_ttl_s: int = 7 * DAY_S
    closed_ttl_s: int = DAY_S
    refresh_ms: int = 100
    idle_refresh_s: float = 5.0
    close_grace_s: float = 30.0
    writer_silent_s: float = 90.0
    external_id_ttl_s: int = 2 * DAY_S
    max_ahead_s: float = DAY_S
    allow_before_1970: bool = False


class TrimLimits(msgspec.Struct, frozen=True):
    """What holds for one stream."""

    max_entries: int
    max_bytes: int
    max_age_s: float
    min_retention_s: float
    idle_stream_s: float
    exact: bool


class StreamTrimSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is different for one stream; what is absent is as for all."""

    max_entries: int | None = None
    max_bytes: int | None = None
    max_age_s: float | None = None
    min_retention_s: float | None = None
    idle_stream_s: float | None = None
    exact: bool | None = None


class TrimSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = True
    every_s: float = 30.0
    max_entries: int = 10_000
    max_bytes: int = 0
    max_age_s: float = 0
    min_retention_s: float = 60.0
    idle_stream_s: float = 7 * DAY_S
    exact: bool = False
    streams: dict[str, StreamTrimSettings] = {}

    def of(self, stream: str) -> TrimLimits:
        """The limits of one stream."""
        own = self.streams.get(stream, StreamTrimSettings())
        return TrimLimits(
            *(
                getattr(self, name) if (value := getattr(own, name)) is None else value
                for name in TrimLimits.__struct_fields__
            )
        )


class CatalogueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str = ""
    flush_s: float = 1.0
    progress_flush_s: float = 2.0
    required: bool = False


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ttl_s: int = 60
    renew_s: float = 30.0
    beat_s: float = 1.0
    lease_s: float = 10.0


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: str = "info"
    format: str = "auto"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    redis: RedisSettings = RedisSettings()
    keys: keys_.Keys = keys_.Keys()
    control: ControlSettings = ControlSettings()
    session: SessionSettings = SessionSettings()
    trim: TrimSettings = TrimSettings()
    catalogue: CatalogueSettings = CatalogueSettings()
    node: NodeSettings = NodeSettings()
    log: LogSettings = LogSettings()


def load(
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """File, then environment, then `overrides` (dotted names, from the command line): the last one wins."""
    document = _read(path) if path is not None else {}
    for name, value in environ.items():
        if name.startswith(ENVIRONMENT_PREFIX) and "__" in name:
            path_in_document = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
            _set(document, path_in_document, _list_or_text(name, value))
    for name, value in (overrides or {}).items():
        if value is not None:
            _set(document, name.split("."), value)
    try:
        settings = msgspec.convert(document, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise errors.BadConfiguration(
            where=str(path or "the environment or command line"), reason=str(error)
        ) from error
    _check(settings)
    return settings


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise errors.BadConfiguration(where=str(path), reason=f"it can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise errors.BadConfiguration(where=str(path), reason=f"it is not TOML: {error}") from error


def _list_or_text(name: str, value: str) -> Any:
    """Lists are written as in the file: RTA_CONTROL__PRINCIPALS='["a", "b"]'."""
    if not value.startswith("["):
        return value
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise errors.BadConfiguration(where=name, reason=f"it is not a TOML list: {error}") from error


def _set(document: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        document = document.setdefault(name, {})
    document[path[-1]] = value


def _check(settings: Settings) -> None:
    if settings.log.level not in ("debug", "info", "warning", "error"):
        raise errors.BadConfiguration(where="log.level", reason="it is one of debug, info, warning, error")
    if settings.log.format not in ("auto", "json", "console"):
        raise errors.BadConfiguration(where="log.format", reason="it is one of auto, json, console")
    if settings.session.idle_refresh_s * 2 > settings.session.open_ttl_s:
        raise errors.BadConfiguration(where="session.open_ttl_s", reason="it is less than two idle refreshes")
    if settings.control.retry_s >= settings.control.expire_s:
        raise errors.BadConfiguration(where="control.expire_s", reason="it is not more than control.retry_s")
    for name in ("flush_s", "progress_flush_s"):
        if getattr(settings.catalogue, name) <= 0:
            raise errors.BadConfiguration(where=f"catalogue.{name}", reason="it is not above 0")
    if not settings.control.principals:
        raise errors.BadConfiguration(where="control.principals", reason="it names nobody")
    for principal in settings.control.askers:
        keys_.check_principal(principal)
    for principal, prefix in settings.control.stream_prefixes.items():
        if principal not in settings.control.principals:
            raise errors.BadConfiguration(where="control.stream_prefixes", reason=f"{principal!r} is no principal")
        keys_.check_stream_name(prefix)
    _check_node(settings.node)
    _check_trim(settings)


def _check_node(node: NodeSettings) -> None:
    if node.renew_s * 2 > node.ttl_s:
        raise errors.BadConfiguration(where="node.renew_s", reason="it is more than half of node.ttl_s")
    if node.lease_s < LEASE_MIN_S:
        raise errors.BadConfiguration(where="node.lease_s", reason=f"it is less than {LEASE_MIN_S} s")


def _check_trim(settings: Settings) -> None:
    if settings.trim.every_s <= 0:
        raise errors.BadConfiguration(where="trim.every_s", reason="it is not above 0")
    for stream in (None, *settings.trim.streams):
        where = "trim" if stream is None else f'trim.streams."{stream}"'
        limits = settings.trim.of(stream or "")
        if stream is not None:
            keys_.check_stream_name(stream)
        if limits.max_entries < 1:
            raise errors.BadConfiguration(where=f"{where}.max_entries", reason="it is not above 0")
        for name in ("max_bytes", "max_age_s", "min_retention_s", "idle_stream_s"):
            if getattr(limits, name) < 0:
                raise errors.BadConfiguration(where=f"{where}.{name}", reason="it is below 0")
        if 0 < limits.idle_stream_s < settings.session.closed_ttl_s:
            raise errors.BadConfiguration(
                where=f"{where}.idle_stream_s",
                reason="it is less than session.closed_ttl_s: sessions would outlive their stream",
            )
