"""The settings as a whole: all sections, how they are loaded, and the checks that cross sections.

`conf/supervisor.toml` shows every key. RTA_REDIS__URL in the environment overrides `url` in `[redis]`, and so on.
Sections are defined in `sections` and exported here too; `sources` reads their values.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from rta_supervisor.settings import sources
from rta_supervisor.settings.sections import checks
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_supervisor.settings.sections.catalogue import CatalogueSettings
from rta_supervisor.settings.sections.compact import CompactSettings
from rta_supervisor.settings.sections.control import ControlSettings
from rta_supervisor.settings.sections.days import DaysSettings
from rta_supervisor.settings.sections.limits import LimitsSettings
from rta_supervisor.settings.sections.log import LogSettings
from rta_supervisor.settings.sections.metrics import MetricsSettings
from rta_supervisor.settings.sections.node import NodeSettings
from rta_supervisor.settings.sections.publish import PublishSettings
from rta_supervisor.settings.sections.redis import RedisSettings
from rta_supervisor.settings.sections.servers.gateway import GatewaySettings
from rta_supervisor.settings.sections.servers.http import HttpSettings
from rta_supervisor.settings.sections.session import SessionSettings
from rta_supervisor.settings.sections.trim import OtherProducersSettings, StreamTrimSettings, TrimLimits, TrimSettings
from rta_supervisor.settings.sections.webhooks import WebhookSettings
from rta_wire import day_streams, errors
from rta_wire import keys as keys_

__all__ = [
    "ArchiveSettings",
    "CatalogueSettings",
    "CompactSettings",
    "ControlSettings",
    "DaysSettings",
    "GatewaySettings",
    "HttpSettings",
    "LimitsSettings",
    "LogSettings",
    "MetricsSettings",
    "NodeSettings",
    "OtherProducersSettings",
    "PublishSettings",
    "RedisSettings",
    "SessionSettings",
    "Settings",
    "StreamTrimSettings",
    "TracedSettings",
    "TrimLimits",
    "TrimSettings",
    "WebhookSettings",
    "load",
    "load_traced",
]

CONTROL_BLOCK_S: Final = 1.0
"""How long a read of a control stream blocks in Redis. With a shorter timeout no read would ever get its reply."""


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """The settings in force. A reload replaces sections (`reload.apply`): read them where they are used."""

    redis: RedisSettings = RedisSettings()
    keys: keys_.Keys = keys_.Keys()
    control: ControlSettings = ControlSettings()
    limits: LimitsSettings = LimitsSettings()
    session: SessionSettings = SessionSettings()
    trim: TrimSettings = TrimSettings()
    other_producers: OtherProducersSettings = OtherProducersSettings()
    days: DaysSettings = DaysSettings()
    compact: CompactSettings = CompactSettings()
    catalogue: CatalogueSettings = CatalogueSettings()
    archive: ArchiveSettings = ArchiveSettings()
    node: NodeSettings = NodeSettings()
    http: HttpSettings = HttpSettings()
    gateway: GatewaySettings = GatewaySettings()
    metrics: MetricsSettings = MetricsSettings()
    webhooks: WebhookSettings = WebhookSettings()
    publish: PublishSettings = PublishSettings()
    log: LogSettings = LogSettings()

    def check(self) -> None:
        """Raise `BadConfiguration` for a value that is impossible by itself or with others, also of other sections."""
        sections: tuple[checks.CheckedSection, ...] = (
            *(self.redis, self.control, self.limits, self.session, self.trim, self.days, self.compact, self.catalogue),
            *(self.other_producers, self.archive, self.node, self.http, self.gateway, self.metrics, self.webhooks),
            *(self.publish, self.log),
        )
        checks.refuse_first(checks.value_rules(self))
        for checked in sections:
            checked.check()
        checks.refuse_first(self._cross_section_rules())

    def _cross_section_rules(self) -> list[checks.Rule]:
        control, session = self.control, self.session
        block_s = f"it is not above {CONTROL_BLOCK_S:g}, the seconds that a read waits for news"
        no_requester = "it is no principal: it stands neither in control.principals nor in control.operators"
        refused_before = "it is not between 0 and control.expire_s: the close would be refused before it is over"
        outlived = "it is less than session.closed_ttl_s: sessions would outlive their stream"
        unrenewed = (
            "it is not more than session.idle_refresh_s and node.lease_s together: sessions would expire while another "
            "supervisor takes over"
        )
        unwritten = "it is more than session.closed_ttl_s: sessions would expire before the catalogue has them"
        return [
            ("session.open_ttl_s", session.open_ttl_s <= session.idle_refresh_s + self.node.lease_s, unrenewed),
            ("catalogue.flush_s", self.catalogue.flush_s > session.closed_ttl_s, unwritten),
            ("redis.timeout_s", self.redis.timeout_s <= CONTROL_BLOCK_S, block_s),
            ("session.close_grace_s", not 0 <= session.close_grace_s < control.expire_s, refused_before),
            *(
                (sources.dotted(("limits", "weights", name)), name not in control.requesters, no_requester)
                for name in self.limits.weights
            ),
            *(
                (f"{where}.idle_stream_s", 0 < limits.idle_stream_s < session.closed_ttl_s, outlived)
                for where, limits in self.trim.all_limits()
            ),
            *(
                (f"{where}.keep_days", 0 < rules.keep_days * day_streams.DAY_S < session.closed_ttl_s, outlived)
                for where, rules in self.days.all_rules()
            ),
        ]

    def warnings(self) -> Iterator[tuple[str, str]]:
        """What can work and is probably not meant: the dotted name of a setting, and why."""
        for owner, other, prefix in self.control.shared_streams():
            shared = f"{owner!r} may open sessions in streams of {other!r}, which begin with {prefix!r} too"
            remedy = "End a prefix in a character that no longer name has there, such as '.'"
            yield sources.dotted(("control", "stream_prefixes", owner)), f"{shared}. {remedy}"
        after_s, idle_stream_s = self.compact.after_s, self.trim.idle_stream_s
        unseen = (
            "it is less than session.closed_ttl_s: readers that don't read cold streams miss data of listed sessions"
        )
        removed = "it is not less than trim.idle_stream_s: streams are removed before they are compacted"
        gone = "it is not less than node.ttl_s: during one slow command the supervisor counts as gone"
        unanswered = (
            "it is more than control.expire_s: a request that is picked up after that and has to wait is refused"
        )
        rules = [
            ("compact.after_s", 0 < after_s < self.session.closed_ttl_s, unseen),
            ("compact.after_s", self.trim.enabled and 0 < idle_stream_s <= after_s, removed),
            ("redis.timeout_s", self.redis.timeout_s >= self.node.ttl_s, gone),
            ("control.pickup_s", self.control.pickup_s > self.control.expire_s, unanswered),
        ]
        yield from ((where, reason) for where, is_doubtful, reason in rules if is_doubtful)


class TracedSettings(msgspec.Struct, frozen=True):
    """Settings, and where each value came from."""

    settings: Settings
    sources: sources.SettingsSources


def load(
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings from a file, credentials, the environment and `overrides` (dotted names, from the command line). Of a
    value that stands in several of them the last one counts."""
    return load_traced(path, environ, overrides).settings


def load_traced(
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    overrides: Mapping[str, Any] | None = None,
) -> TracedSettings:
    """Settings as `load` gives them, with the origin of each value, which its errors name too."""
    gathered = sources.SettingsSources.gather(path, environ, overrides or {})
    try:
        settings = gathered.convert(Settings, environ)
        settings.check()
    except errors.BadConfiguration as error:
        if "problems" in error.facts or error.facts["where"] == str(path):
            raise
        where, reason = gathered.label(error.facts["where"]), gathered.traced(error.facts["reason"])
        raise sources.configuration_error([(where, reason)]) from error
    return TracedSettings(settings, gathered)
