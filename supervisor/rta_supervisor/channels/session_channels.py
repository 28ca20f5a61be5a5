"""The channels of a session: those of all configurations that its JSON binds, as one list."""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.diagnostics import log
from rta_supervisor.session import config_bindings
from rta_wire import errors
from rta_wire.channels import config_json, model

KEPT: Final = 32
"""Lists that a `ChannelReader` has in memory: sessions of one job share one."""

ReadErrors = (errors.CatalogueUnavailable, errors.RedisRefused)
"""Why a configuration that Redis does not have, or does not give us, can't be read elsewhere."""


class SessionChannels(msgspec.Struct, frozen=True):
    """What is known of the channels of a session."""

    channel_list: model.ChannelList = model.EMPTY
    identifiers: tuple[str, ...] = ()
    """The configurations that the session is bound to."""

    problems: tuple[str, ...] = ()
    """Why some of them are not in the list, a sentence each."""


ReadConfig = Callable[[str], Awaitable[bytes | None]]
"""Gives the JSON of a configuration by its identifier, None where it is not there."""


async def read(store: ConfigStore, document: bytes | str, read_other: ReadConfig | None = None) -> SessionChannels:
    """The channels of a session with this JSON. What can't be read is named and left out: samples are shown without.

    `read_other`: asked for configurations that the store does not have.
    """
    lists: list[model.ChannelList] = []
    problems: list[str] = []
    bindings = config_bindings.bindings_in(document)
    for binding in bindings:
        try:
            data = await _find(store, binding.identifier, read_other)
            if data is None:
                problems.append(f"configuration {binding.identifier} was not published here")
            else:
                lists.append(config_json.decode(data).shifted(binding.channelOffset))
        except (*ReadErrors, errors.BadChannels) as error:
            problems.append(f"configuration {binding.identifier}: {error}")
    try:
        merged = model.merge(lists) if lists else model.EMPTY
    except errors.BadChannels as error:
        log.get().warning("config_conflict", reason=str(error))
        merged, problems = model.EMPTY, [*problems, str(error)]
    return SessionChannels(merged, tuple(dict.fromkeys(each.identifier for each in bindings)), tuple(problems))


async def _find(store: ConfigStore, identifier: str, read_other: ReadConfig | None) -> bytes | None:
    """A configuration, wherever it is. That the store can't be read matters only where it is not elsewhere."""
    problem: Exception | None = None
    data = None
    try:
        data = await store.get(identifier)
    except ReadErrors as error:
        problem = error
    if data is None and read_other is not None:
        data = await read_other(identifier)
    if data is None and problem is not None:
        raise problem
    return data


class ChannelReader:
    """Reads the channels of sessions, each set of bindings once."""

    def __init__(self, store: ConfigStore) -> None:
        self._store = store
        self._known: dict[tuple[config_bindings.ConfigBinding, ...], SessionChannels] = {}

    async def read(self, document: bytes | str, read_other: ReadConfig | None = None) -> SessionChannels:
        """The channels of a session with this JSON. Those that were not found are looked for again."""
        bindings = tuple(config_bindings.bindings_in(document))
        if not bindings:
            return SessionChannels()
        if (channels := self._known.get(bindings)) is None:
            channels = await read(self._store, document, read_other)
            if not channels.problems:
                self._known[bindings] = channels
            while len(self._known) > KEPT:
                del self._known[next(iter(self._known))]
        return channels
