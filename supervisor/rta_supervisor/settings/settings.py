"""The configuration: what can be set, its defaults, and how files, environment and command line make one value.

`conf/supervisor.toml` shows every key. RTA_REDIS__URL in the environment overrides `url` in `[redis]`, and so on.
"""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rta_supervisor.settings import sources
from rta_supervisor.settings.sections import archive as archive_config
from rta_supervisor.settings.sections import compaction as cold_when
from rta_supervisor.settings.sections import days as day_rules
from rta_supervisor.settings.sections import postgres_dsn
from rta_supervisor.settings.sections import webhooks as webhook_targets
from rta_wire import day_streams as days_
from rta_wire import errors
from rta_wire import keys as keys_

DAY_S: Final = 24 * 3600
LEASE_MIN_S: Final = 0.2
CONTROL_BLOCK_S: Final = 1.0
"""How long a read of a control stream waits in Redis. An answer that is given up before that never comes."""


class RedisSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str = "redis://127.0.0.1:6379/0"
    password_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    timeout_s: float = 5.0
    startup_patience_s: float = 1.0
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
    def requesters(self) -> tuple[str, ...]:
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
        """The limits of one stream: its own, else those of its source."""
        own = self.streams.get(stream) or self.streams.get(days_.source_of(stream), StreamTrimSettings())
        return TrimLimits(
            *(
                getattr(self, name) if (value := getattr(own, name)) is None else value
                for name in TrimLimits.__struct_fields__
            )
        )


class CatalogueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str = ""
    url: str = ""
    password_file: str = ""
    schema: str = "rta_supervisor"
    timeout_s: float = 5.0
    flush_s: float = 1.0
    progress_flush_s: float = 2.0
    required: bool = False


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ttl_s: int = 60
    renew_s: float = 30.0
    beat_s: float = 1.0
    lease_s: float = 10.0
    drain_s: float = 20.0


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: int = 8630
    token: str = ""


class MetricsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    survey_s: float = 10.0
    slots: bool = True


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: str = "info"
    format: str = "auto"


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """The settings in force. A reload replaces sections (`reload.apply`): read one where it is used, and keep none."""

    redis: RedisSettings = RedisSettings()
    keys: keys_.Keys = keys_.Keys()
    control: ControlSettings = ControlSettings()
    session: SessionSettings = SessionSettings()
    trim: TrimSettings = TrimSettings()
    days: day_rules.DaysSettings = day_rules.DaysSettings()
    compact: cold_when.CompactSettings = cold_when.CompactSettings()
    catalogue: CatalogueSettings = CatalogueSettings()
    archive: archive_config.ArchiveSettings = archive_config.ArchiveSettings()
    node: NodeSettings = NodeSettings()
    http: HttpSettings = HttpSettings()
    metrics: MetricsSettings = MetricsSettings()
    webhooks: webhook_targets.WebhookSettings = webhook_targets.WebhookSettings()
    log: LogSettings = LogSettings()


class TracedSettings(msgspec.Struct, frozen=True):
    """Settings, and where they came from."""

    settings: Settings
    sources: sources.SettingsSources


def load(
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """File, then credentials, then environment, then `overrides` (dotted names, from the command line): the last one
    wins."""
    return load_traced(path, environ, overrides).settings


def load_traced(
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
) -> TracedSettings:
    given = sources.SettingsSources.gather(path, environ, overrides or {})
    try:
        settings = given.convert(Settings)
        _check(settings)
    except errors.BadConfiguration as error:
        if "problems" in error.facts or error.facts["where"] == str(path):
            raise
        where, reason = given.label(error.facts["where"]), given.traced(error.facts["reason"])
        raise sources.configuration_error([(where, reason)]) from error
    return TracedSettings(settings, given)


def _check(settings: Settings) -> None:
    if settings.log.level not in ("debug", "info", "warning", "error"):
        raise errors.BadConfiguration(where="log.level", reason="it is one of debug, info, warning, error")
    if settings.log.format not in ("auto", "json", "console"):
        raise errors.BadConfiguration(where="log.format", reason="it is one of auto, json, console")
    _check_timings(settings)
    if not settings.control.principals:
        raise errors.BadConfiguration(where="control.principals", reason="it names nobody")
    for principal in settings.control.requesters:
        keys_.check_principal(principal)
    for principal, prefix in settings.control.stream_prefixes.items():
        if principal not in settings.control.principals:
            raise errors.BadConfiguration(where="control.stream_prefixes", reason=f"{principal!r} is no principal")
        keys_.check_stream_name(prefix)
    _check_trim(settings)
    day_rules.check(settings.days, closed_ttl_s=settings.session.closed_ttl_s)
    cold_when.check(settings.compact)
    _check_http(settings.http)
    webhook_targets.check(settings.webhooks)
    catalogue = settings.catalogue
    postgres_dsn.check(
        url=catalogue.url, path=catalogue.path, password_file=catalogue.password_file, schema=catalogue.schema
    )
    archive_config.check(settings.archive)


def _check_timings(settings: Settings) -> None:
    """Times that can't be, each by itself or with another."""
    control, session, node = settings.control, settings.session, settings.node
    above_0 = "it is not above 0"
    read_waits = f"it is not above {CONTROL_BLOCK_S:g}, the seconds that a read waits for news"
    refused_before = "it is not between 0 and control.expire_s: the close would be refused before it is over"
    expires_first = "it is less than two session.idle_refresh_s"
    impossible = (
        ("redis.timeout_s", settings.redis.timeout_s <= CONTROL_BLOCK_S, read_waits),
        ("redis.startup_patience_s", settings.redis.startup_patience_s < 0, "it is below 0"),
        ("control.batch", control.batch < 1, above_0),
        ("control.max_unacknowledged", control.max_unacknowledged < 1, above_0),
        ("control.dead_letters_max", control.dead_letters_max < 1, above_0),
        ("control.retry_s", control.retry_s <= 0, above_0),
        ("control.pickup_s", control.pickup_s <= 0, above_0),
        ("control.reply_ttl_s", control.reply_ttl_s < 1, above_0),
        ("control.expire_s", control.expire_s <= control.retry_s, "it is not more than control.retry_s"),
        ("session.open_ttl_s", session.open_ttl_s < 1, above_0),
        ("session.closed_ttl_s", session.closed_ttl_s < 1, above_0),
        ("session.external_id_ttl_s", session.external_id_ttl_s < 1, above_0),
        ("session.refresh_ms", session.refresh_ms < 1, above_0),
        ("session.idle_refresh_s", session.idle_refresh_s <= 0, above_0),
        ("session.open_ttl_s", session.open_ttl_s < session.idle_refresh_s * 2, expires_first),
        ("session.close_grace_s", not 0 <= session.close_grace_s < control.expire_s, refused_before),
        ("session.writer_silent_s", session.writer_silent_s <= 0, above_0),
        ("session.max_ahead_s", session.max_ahead_s < 0, "it is below 0"),
        ("catalogue.flush_s", settings.catalogue.flush_s <= 0, above_0),
        ("catalogue.timeout_s", settings.catalogue.timeout_s <= 0, above_0),
        ("catalogue.progress_flush_s", settings.catalogue.progress_flush_s <= 0, above_0),
        ("node.ttl_s", node.ttl_s < 1, above_0),
        ("node.renew_s", not 0 < node.renew_s <= node.ttl_s / 2, "it is not between 0 and half of node.ttl_s"),
        ("node.beat_s", not 0 < node.beat_s < node.ttl_s, "it is not between 0 and node.ttl_s"),
        ("metrics.survey_s", settings.metrics.survey_s <= 0, above_0),
        ("node.drain_s", node.drain_s < 0, "it is below 0"),
        ("node.lease_s", node.lease_s < LEASE_MIN_S, f"it is less than {LEASE_MIN_S} s"),
    )  # fmt: skip
    for where, is_impossible, reason in impossible:
        if is_impossible:
            raise errors.BadConfiguration(where=where, reason=reason)


def _check_http(http: HttpSettings) -> None:
    if not 0 <= http.port <= 65535:
        raise errors.BadConfiguration(where="http.port", reason="it is not between 0 and 65535")
    if http.host and not is_loopback(http.host) and not http.token:
        reason = f"{http.host!r} can be reached from elsewhere. Set http.token, or listen on 127.0.0.1"
        raise errors.BadConfiguration(where="http.host", reason=reason)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
