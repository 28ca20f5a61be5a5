"""What serves and keeps configurations, without a running supervisor."""

from typing import Any, NamedTuple

import msgspec
import pytest

from rta_supervisor.channels.publishing import ConfigService
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.channels.sync import ConfigSync
from rta_supervisor.settings import settings
from rta_wire import session
from rta_wire.channels import config_json, model
from rta_wire.pb import control_pb2
from tests.support.session_values import control_entry
from tests.support.supervisor_parts import World


class ConfigWorld(NamedTuple):
    """Parts that are about configurations, and those that are about sessions."""

    world: World
    config: settings.Settings
    store: ConfigStore
    service: ConfigService
    sync: ConfigSync

    async def publish(self, channels: model.ChannelList, principal: str = "default") -> control_pb2.ConfigReply:
        request = control_pb2.PublishConfig(request_id="x", config_json=config_json.encode(channels).decode())
        return await self.service.publish(control_entry(principal), request)

    async def open(self, identity: str, config: str, entry_id: str = "1-0", **properties: Any) -> None:
        """Open a session with a configuration, and write it to the catalogue."""
        text = session.dump(session.build(identity, **properties)).decode()
        request = control_pb2.OpenSession(identity=identity, stream="rig", session_json=text, config_identifier=config)
        await self.world.service.open(control_entry(entry_id=entry_id), request)
        await self.world.catalogue_writer.flush()

    async def bindings(self, identity: str) -> list[tuple[str, int]]:
        """Identifiers and offsets in the JSON of a session."""
        document = session.parse((await self.world.record(identity)).document)
        return [(each["identifier"], each["channelOffset"]) for each in document.get("configBindings", [])]

    async def ttl_s(self, identifier: str) -> int:
        ttl_s: int = await self.world.link.do("TTL", self.config.keys.config(identifier))
        return ttl_s


@pytest.fixture
def configs(world: World) -> ConfigWorld:
    return build(world, settings.Settings())


def build(world: World, config: settings.Settings, **limits: int) -> ConfigWorld:
    config = msgspec.structs.replace(config, limits=msgspec.structs.replace(config.limits, **limits))
    store = ConfigStore(world.link, config.keys, world.catalogue)
    service = ConfigService(world.link, config, store, world.catalogue)
    return ConfigWorld(world, config, store, service, ConfigSync(world.link, config, store, world.catalogue))
