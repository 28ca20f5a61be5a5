"""A configuration as it is kept: in its canonical form, with its identifier and what lists say about it. Pure."""

import msgspec

from rta_supervisor.catalogue.model import ConfigInfo, ConfigRow
from rta_wire.channels import config_json, viewer_warnings


class CheckedConfig(msgspec.Struct, frozen=True):
    """A configuration that was checked."""

    row: ConfigRow
    warnings: list[str]
    """What viewers can't show of it."""


def check(data: bytes, principal: str, at_ms: int) -> CheckedConfig:
    """A configuration in its canonical form, whatever form it came in. Raises `BadChannels` where it can't be one."""
    channel_list = config_json.decode(data)
    canonical = config_json.encode(channel_list)
    info = ConfigInfo(
        identifier=config_json.identifier(canonical),
        principal=principal,
        application=channel_list.application,
        channels=len(channel_list.channels),
        events=len(channel_list.events),
        size_bytes=len(canonical),
        published_ms=at_ms,
    )
    return CheckedConfig(ConfigRow(info, canonical), viewer_warnings.warnings(channel_list))
