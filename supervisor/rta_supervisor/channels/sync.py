"""Keeps the configurations that sessions are bound to: in Redis for as long as the sessions, and in the catalogue of
this host, whoever published them.

After Redis lost its data they come from the catalogue; what another supervisor published, or was published while the
catalogue could not be used, is saved from Redis.
"""

import collections
from collections.abc import Iterable, Sequence
from typing import Final

import anyio.to_thread

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.channels import config_checks
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes import periodic
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.session import config_bindings
from rta_supervisor.settings import settings
from rta_supervisor.transport import scanning
from rta_supervisor.transport.failures import classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import PAGE_SIZE, map_pages, pages
from rta_wire import errors, keys, name_checks

SYNC_INTERVAL_S: Final = 60.0
SYNCS_PER_TTL: Final = 4
"""How often lifetimes are renewed, at least, while a configuration that was published a moment ago lives."""

LOGGED_MAX: Final = 10
UNKNOWN_PUBLISHER: Final = ""
"""In the catalogue: another supervisor published it, and Redis does not say for whom."""


class ConfigSync:
    """Looks at the bindings of all live sessions now and then."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        store: ConfigStore,
        catalogue: Catalogue,
        *,
        clock: Clock = now_ms,
    ) -> None:
        self._link = link
        self._config = config
        self._store = store
        self._catalogue = catalogue
        self._clock = clock
        self._saved: set[str] = set()
        """Configurations of live sessions that the catalogue is known to have."""
        self._missing: set[str] = set()
        self._log = log.get()

    async def run(self, turns: periodic.DutyTurns = periodic.UNLEASED) -> None:
        """Sync until cancelled."""
        await periodic.in_turns(turns, self._pause_s, self._sync_in_turn, self._link.outage_log)

    def _pause_s(self) -> float:
        return min(SYNC_INTERVAL_S, self._config.session.closed_ttl_s / SYNCS_PER_TTL)

    async def _sync_in_turn(self, until_ms: int | None) -> None:
        if until_ms is not None:
            await self.sync()

    async def sync(self) -> None:
        """Renew the lifetimes of all configurations that live sessions are bound to; put back and save what is
        missing."""
        bound = set(await bound_configs(self._link, self._config.keys))
        self._saved &= bound
        missing: set[str] = set()
        try:
            for page in pages(sorted(bound), PAGE_SIZE):
                loop_watch.report_alive()
                missing |= await self.restore(page)
                await self._save([identifier for identifier in page if identifier not in missing | self._saved])
        except errors.CatalogueUnavailable as error:
            self._log.error("configs_not_saved", error=str(error))
            return
        counters.counts.configs_missing = len(missing)
        if new := sorted(missing - self._missing):
            self._log.warning("configs_missing", count=len(new), configs=new[:LOGGED_MAX])
        self._missing = missing

    async def restore(self, identifiers: Iterable[str]) -> set[str]:
        """Have Redis keep configurations for as long as a session that is bound to them now, from the catalogue where
        it lost them. Gives those that nobody published here."""
        wanted = [identifier for identifier in identifiers if name_checks.is_config_identifier(identifier)]
        ttl_s = self._config.session.open_ttl_s + self._config.session.closed_ttl_s
        missing = set(identifiers) - set(wanted)
        absent = await self._store.renew(wanted, ttl_s=ttl_s)
        saved: set[str] = set()
        for page in pages(absent, PAGE_SIZE):
            # Nobody has published what a client made up: it is looked for with the others of a page, not by itself.
            saved |= await self._catalogue.has_configs(page)
        for identifier in absent:
            data = await self._store.get_saved(identifier) if identifier in saved else None
            if data is None:
                missing.add(identifier)
                continue
            await self._store.put_live(identifier, data, ttl_s=ttl_s)
            counters.counts.configs["restored"] += 1
            self._log.warning("config_restored", config=identifier, bytes=len(data))
        return missing

    async def _save(self, identifiers: Sequence[str]) -> None:
        """Have the catalogue keep configurations that Redis has."""
        self._saved |= await self._catalogue.has_configs(identifiers)
        for identifier in identifiers:
            if identifier in self._saved or (data := await self._store.get_live(identifier)) is None:
                continue
            try:
                checked = await anyio.to_thread.run_sync(config_checks.check, data, UNKNOWN_PUBLISHER, self._clock())
            except errors.BadChannels as error:
                # A later version published it, with what this one does not know. Its own supervisor has saved it.
                self._log.warning("config_not_saved", config=identifier, error=str(error))
                continue
            await self._catalogue.save_config(checked.row)
            self._saved.add(identifier)


async def bound_configs(link: Link, names: keys.Keys) -> dict[str, int]:
    """The identifiers of all configurations that live sessions are bound to, with how many sessions are."""
    identities = [raw.decode() for raw in await scanning.read_sorted_set(link, names.session_index())]
    rows = await map_pages(
        identities,
        lambda page: link.try_all([("HGET", names.session_state(identity), keys.CONFIGS) for identity in page]),
    )
    bound: collections.Counter[str] = collections.Counter()
    for row in rows:
        if isinstance(row, Exception):
            if not is_key_specific(row):
                raise classify(row)
            continue
        bound.update(config_bindings.parse_state_field(row))
    return bound
