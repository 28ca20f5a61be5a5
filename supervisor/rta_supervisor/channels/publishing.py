"""Serves requests to publish a configuration: checks it, computes its identifier, and keeps it in Redis and in the
catalogue. The first one of an identifier stays, and publishing it again changes nothing.
"""

from typing import Final

import anyio.to_thread

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import ConfigRow
from rta_supervisor.channels import config_checks, server_functions
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.diagnostics import counters, log, principal_limits
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, errors
from rta_wire.pb import control_pb2

COUNTED_S: Final = day_streams.DAY_S
"""How long a configuration counts for the limits of its principal."""

WARNINGS_LOGGED: Final = 5
WARNINGS_REPLIED: Final = 200
"""Of each configuration. `rta-supervisor channels show` lists all."""


class ConfigService:
    """Publishes configurations of all principals."""

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
        self._log = log.get()

    async def publish(self, entry: ControlEntry, request: control_pb2.PublishConfig) -> control_pb2.ConfigReply:
        """Keep a configuration, and give its identifier and what viewers can't show of it."""
        # Checking thousands of channels takes some hundred milliseconds, in which other requests are served.
        checked = await anyio.to_thread.run_sync(
            config_checks.check, request.config_json.encode(), entry.principal, self._clock()
        )
        info = checked.row.info
        await self._put(entry.principal, checked.row)
        is_new = await self._save(checked.row)
        counters.counts.configs["new" if is_new else "known"] += 1
        facts = {"config": info.identifier, "channels": info.channels, "bytes": info.size_bytes, "new": is_new}
        self._log.info("config_published", **facts)
        if checked.warnings:
            some = checked.warnings[:WARNINGS_LOGGED]
            self._log.warning("config_warnings", config=info.identifier, count=len(checked.warnings), warnings=some)
        return control_pb2.ConfigReply(identifier=info.identifier, warnings=_replied(checked.warnings))

    async def _put(self, principal: str, row: ConfigRow) -> None:
        """Have Redis keep it until a session is bound to it, within the limits of its principal."""
        identifier, ttl_s = row.info.identifier, self._config.session.closed_ttl_s
        if await self._store.get_live(identifier) is None:
            limits = self._config.limits
            outcome: bytes = await self._link.do(
                *server_functions.count_published(
                    self._config.keys,
                    principal,
                    identifier,
                    row.info.size_bytes,
                    span_s=COUNTED_S,
                    max_configs=limits.configs,
                    max_bytes=limits.config_bytes,
                )
            )
            if outcome != b"counted":
                raise self._limit_reached(principal, outcome.decode())
        await self._store.put_live(identifier, row.data, ttl_s=ttl_s)

    def _limit_reached(self, principal: str, limit: str) -> errors.LimitReached:
        principal_limits.note_reached(principal, limit)
        unit = "configurations" if limit == "configs" else "bytes of configurations"
        return errors.LimitReached(
            principal=principal,
            what=f"{unit} published within a day",
            setting=f"limits.{limit}",
            limit=getattr(self._config.limits, limit),
            remedy="Sessions with the same channels share one configuration. Nothing was changed: try it later.",
        )

    async def _save(self, row: ConfigRow) -> bool:
        """Have the catalogue keep it for ever. Whether it is new. One that can't be saved now is saved later, from
        Redis, when a session is bound to it."""
        try:
            return await self._catalogue.save_config(row)
        except errors.CatalogueUnavailable as error:
            self._log.error("config_not_saved", config=row.info.identifier, error=str(error))
            return True


def _replied(warnings: list[str]) -> list[str]:
    """The warnings that a reply has room for."""
    if len(warnings) <= WARNINGS_REPLIED:
        return warnings
    more = len(warnings) - WARNINGS_REPLIED
    return [*warnings[:WARNINGS_REPLIED], f"{more:,} more: `rta-supervisor channels show` lists them"]
