"""Decides which configuration a session is bound to where a client wants another one than the session has.

Lists of a session only grow: an id that samples were written with keeps its meaning. So of two clients that add
channels at the same time the second one is refused, and opens the session again with what the first one added.
"""

import anyio.to_thread

from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.settings import settings
from rta_wire import errors
from rta_wire.channels import config_json, growth


class ConfigBinder:
    """Compares configurations that clients bind sessions to."""

    def __init__(self, store: ConfigStore, config: settings.Settings) -> None:
        self._store = store
        self._config = config

    async def choose(self, identity: str, bound: str, wanted: str) -> str:
        """The identifier of the configuration for a session: `wanted`, or `bound`, which the session has, where that
        says all of it and more. Raises `ChannelsChanged` where neither has all that the other one has.

        `bound`: empty where the session has none.
        """
        if not bound:
            await self._require(wanted)
            return wanted
        if bound == wanted:
            return wanted
        known, new = await self._store.get(bound), await self._store.get(wanted)
        if new is None:
            raise errors.UnknownConfig(identifier=wanted)
        if known is None:
            return wanted
        # Decoding thousands of channels takes some hundred milliseconds, in which other requests are served.
        is_chosen, reason = await anyio.to_thread.run_sync(_compare, known, new)
        if reason:
            raise errors.ChannelsChanged(identity=identity, reason=reason)
        return wanted if is_chosen else bound

    async def _require(self, identifier: str) -> None:
        """Have Redis keep a configuration for longer than a session that is opened now, however soon that ends. Raises
        where nobody published it here, or it was lost with the catalogue."""
        ttl_s = self._config.session.open_ttl_s + self._config.session.closed_ttl_s
        if not await self._store.renew([identifier], ttl_s=ttl_s):
            return
        try:
            data = await self._store.get_saved(identifier)
        except errors.CatalogueUnavailable:
            return  # it is put back once the catalogue answers
        if data is None:
            raise errors.UnknownConfig(identifier=identifier)
        await self._store.put_live(identifier, data, ttl_s=ttl_s)


def _compare(known: bytes, new: bytes) -> tuple[bool, str]:
    """Whether the new list has all of the known one, and what it lacks where the known one lacks something too."""
    known_list, new_list = config_json.decode(known), config_json.decode(new)
    lacks = growth.missing_in(new_list, known_list)
    return not lacks, lacks if growth.missing_in(known_list, new_list) else ""
