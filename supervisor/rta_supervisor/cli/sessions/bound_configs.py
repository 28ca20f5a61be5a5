"""The configurations that a session is bound to, as `sessions show` prints them."""

import msgspec
from rich.table import Table

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.channels import session_channels
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.cli import catalogue_access, output
from rta_supervisor.session import config_bindings
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import errors
from rta_wire.channels import config_json


class BoundConfig(msgspec.Struct, frozen=True):
    """A binding of a session, and what it leads to."""

    identifier: str
    channel_offset: int
    application: str = ""
    channels: int = 0
    events: int = 0
    problem: str = ""
    """Why the configuration can't be read; empty where it can."""


async def load(link: Link, config: settings.Settings, document: bytes) -> list[BoundConfig]:
    """The bindings in a Session JSON."""
    bindings = config_bindings.bindings_in(document)
    if not bindings:
        return []

    async def read_all(catalogue: Catalogue) -> list[BoundConfig]:
        store = ConfigStore(link, config.keys, catalogue)
        return [await _read(store, binding) for binding in bindings]

    return await catalogue_access.with_catalogue(config, read_all)


async def _read(store: ConfigStore, binding: config_bindings.ConfigBinding) -> BoundConfig:
    bound = BoundConfig(binding.identifier, binding.channelOffset)
    try:
        data = await store.get(binding.identifier)
        if data is None:
            return msgspec.structs.replace(bound, problem="nobody published it here")
        channels = config_json.decode(data)
    except (*session_channels.ReadErrors, errors.BadChannels) as error:
        return msgspec.structs.replace(bound, problem=str(error))
    counts = {"channels": len(channels.channels), "events": len(channels.events)}
    return msgspec.structs.replace(bound, application=channels.application, **counts)


def table(configs: list[BoundConfig]) -> Table:
    """A row for each binding."""
    numbers = ("offset", "channels", "events")
    rows = output.table("configuration", "application", *numbers, "", right=numbers)
    for config in configs:
        counts = ("", "") if config.problem else (output.count(config.channels), output.count(config.events))
        texts = (output.escape(config.identifier), config.application, output.count(config.channel_offset), *counts)
        rows.add_row(*texts, output.escape(config.problem))
    return rows
